"""Files that are copies say what their originals say."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dyweight

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


def test_the_nodes_need_nothing_but_comfyui():
    """Whoever copies the folder has all of it."""
    known = {"comfy", "folder_paths", "numpy", "torch", "tqdm", *sys.stdlib_module_names}
    for path in (PYTHON.parent / "comfyui" / "dyweight").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {name.name.split(".")[0] for name in node.names} <= known, path.name
            elif isinstance(node, ast.ImportFrom):
                here = node.level == 1 and path.with_name(f"{node.module}.py").exists()
                assert here or (node.level == 0 and node.module.split(".")[0] in known), (path.name, node.module)


def test_versions_and_licences_agree():
    tomllib = pytest.importorskip("tomllib")
    root = PYTHON.parent
    package, nodes, workspace = (
        tomllib.loads((root / name).read_text("utf-8"))
        for name in ("python/pyproject.toml", "comfyui/dyweight/pyproject.toml", "Cargo.toml")
    )
    version = workspace["workspace"]["package"]["version"]
    assert package["project"]["version"] == nodes["project"]["version"] == dyweight.__version__ == version
    licence = package["project"]["license"]
    assert nodes["project"]["license"] == {"text": licence} and licence == workspace["workspace"]["package"]["license"]
    assert {"PublisherId", "DisplayName"} <= set(nodes["tool"]["comfy"])
    assert package["project"]["urls"]["Repository"] == nodes["project"]["urls"]["Repository"]
