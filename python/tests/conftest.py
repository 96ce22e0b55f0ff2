import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
# The installed package, compiled part and all; the source tree where there is none.
if importlib.util.find_spec("dyweight") is None:
    sys.path.insert(0, str(HERE.parent))
# Tiny networks are done before a second thread is awake.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell starts what is to run behind it deaf to Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def program():
    """The dyweight binary, or None."""
    given = [os.environ.get("DYWEIGHT_BIN")] if os.environ.get("DYWEIGHT_BIN") else []
    built = [ROOT / "target" / kind / "dyweight" for kind in ("release", "debug")]
    return next((str(place) for place in [*given, *built] if Path(place).is_file()), None)


def has_native():
    return importlib.util.find_spec("dyweight._native") is not None


def pytest_collection_modifyitems(items):
    """What needs the compiled part is left out where it is not, loudly."""
    if not has_native():
        for item in items:
            if item.path.name.startswith("test_native"):
                item.add_marker(pytest.mark.skip(reason="no dyweight._native"))


def pytest_terminal_summary(terminalreporter):
    if not has_native():
        terminalreporter.write_line("WARNING: no dyweight._native: tests of training were SKIPPED", red=True)
    if program() is None:
        terminalreporter.write_line(
            "WARNING: no dyweight binary (DYWEIGHT_BIN or target/*/dyweight): comparisons with it were SKIPPED",
            red=True,
        )


@pytest.fixture(scope="session")
def run():
    """Runs the binary and returns what it prints."""
    binary = program()
    if binary is None:
        pytest.skip("no dyweight binary: set DYWEIGHT_BIN or build target/release/dyweight")

    def run(*arguments):
        done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def trajectory(run, tmp_path_factory):
    """States of the Rust sampler: [steps + 1, samples, c, h, w]."""
    from safetensors.numpy import load_file, save_file

    def trajectory(weights, noise, model="mixture", *options):
        folder = tmp_path_factory.mktemp("trajectory")
        save_file({"latents": np.ascontiguousarray(noise, dtype=np.float64)}, folder / "noise.safetensors")
        run("sample", "--model", model, "--weights", weights, "--latents", folder / "noise.safetensors",
            "--trajectory", folder / "out.safetensors", *options)  # fmt: skip
        return load_file(folder / "out.safetensors")["trajectory"]

    return trajectory


# Solvers as `dyweight train` writes them: name, model, options.
TRAINED = {
    "afs": ("mixture", ["--nfe", "4"]),
    "no-afs": ("mixture", ["--nfe", "5", "--afs", "false"]),
    "window-4": ("mixture", ["--nfe", "6", "--order", "4", "--schedule", "logsnr"]),
    "no-shift": ("mixture", ["--nfe", "4", "--no-time-shift"]),
    "no-scale": ("mixture", ["--nfe", "4", "--no-time-scale"]),
    "vp-time": ("mixture", ["--nfe", "4", "--schedule", "time-uniform", "--rho", "2"]),
    "discrete": ("mixture", ["--nfe", "5", "--schedule", "discrete", "--beta-table", "sd15"]),
    "discrete-no-afs": ("mixture", ["--nfe", "4", "--afs", "false", "--schedule", "discrete", "--beta-table", "sd15"]),
    "explicit": ("mixture", ["--steps", "4", "--sigmas", "40,9,2,0.3,0.01"]),
    "flow": ("mixture-flow", ["--nfe", "5"]),
    "flow-shift": ("mixture-flow", ["--nfe", "4", "--schedule", "flow", "--shift", "2.5"]),
    "flow-afs": ("mixture-flow", ["--nfe", "4", "--afs", "true"]),
}


@pytest.fixture(scope="session")
def trained(run, tmp_path_factory):
    """The path of a trained solver by its name in TRAINED."""
    folder, made = tmp_path_factory.mktemp("trained"), {}

    def trained(name):
        if name not in made:
            model, options = TRAINED[name]
            made[name] = folder / f"{name}.json"
            run("train", "--model", model, *options, "--iters", 40, "--plain", "--out", made[name])
        return made[name]

    return trained


@pytest.fixture
def record():
    """A good solver file's content, to be changed."""
    return json.loads(json.dumps(GOOD))


GOOD = {
    "format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": 3, "steps": 4, "order": 3, "afs": True,
    "prediction": "denoised", "schedule": {"kind": "karras", "rho": 7.0}, "sigma_min": 0.03, "sigma_max": 14.0,
    "weights": [[1.05], [-0.4, 1.4], [0.3, -1.2, 1.8], [0.35, -1.3, 1.9]], "time_scale": [0.9, 1.0, 0.95],
}  # fmt: skip
