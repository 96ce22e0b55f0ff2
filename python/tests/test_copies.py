"""Files that are copies say what their originals say."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


def _copies():
    spec = importlib.util.spec_from_file_location("copies", PYTHON / "copies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.copies())


@pytest.mark.parametrize(("path", "content"), _copies(), ids=lambda v: v.name if isinstance(v, Path) else "")
def test_copies_are_current(path, content):
    assert path.read_text(encoding="utf-8") == content, "run: python python/copies.py"


def test_the_scheduler_works_copied_alone(tmp_path):
    shutil.copy(PYTHON / "dyweight_scheduler.py", tmp_path)
    shutil.copy(PYTHON.parent / "comfyui" / "dyweight" / "solvers" / "ms-coco-nfe8.json", tmp_path / "solver.json")
    code = """
import sys
sys.modules["dyweight"] = None  # as if it were not installed
import torch, dyweight_scheduler as d
s = d.DyWeightScheduler.from_file("solver.json")
s.set_timesteps(4)
x = torch.randn(1, 4, 8, 8) * s.init_noise_sigma
for t in s.timesteps:
    x = s.step(s.scale_model_input(x, t), t, x).prev_sample
s.save_pretrained("saved")
assert d.DyWeightScheduler.from_pretrained("saved").solver.times == s.solver.times
try:
    d.DyWeightScheduler.from_preset("ms-coco-nfe8")
except ImportError as error:
    assert "package" in str(error)
else:
    raise SystemExit("presets without the package?")
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr
