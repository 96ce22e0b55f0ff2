"""The examples of the documentation run as they stand."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("diffusers.md", ["8", "(16, 16)", "True", "num_inference_steps must be 8, not 20"]),
        ("comfyui.md", ["tensor([ 0."]),
        ("python.md", ["Solver(squares, dyweight, 5 calls, 6 steps, order 3, afs)", "torch.Size([4, 1, 8, 8])", "| dyweight | 0.0"]),
    ],
)
def test_examples_run(page, says, tmp_path, monkeypatch):
    if page != "comfyui.md":
        pytest.importorskip("dyweight._native")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})
    for text in says:
        assert text in printed.getvalue(), printed.getvalue()
