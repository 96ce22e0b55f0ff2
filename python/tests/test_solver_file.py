"""Solver files and presets: the same numbers as the Rust reader's, and refusals that say what is wrong."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import TRAINED

import dyweight
from dyweight.solver_file import NoiseTable, SolverFile, SolverFileError


def test_every_preset_is_the_converted_one(run, tmp_path):
    names = dyweight.preset_names()
    assert len(names) == 43
    for name in names:
        path = tmp_path / f"{name}.json"
        run("convert", f"preset:{name}", path)
        ours, theirs = dyweight.preset(name), json.loads(path.read_text())
        assert ours.record == theirs, name
        _same_times(ours, theirs)
        _same_times(SolverFile.load(path), theirs)


@pytest.mark.parametrize("name", TRAINED)
def test_trained_files_give_the_times_that_are_stored_in_them(trained, name):
    path = trained(name)
    _same_times(SolverFile.load(path), json.loads(path.read_text()))


def _same_times(solver, record):
    np.testing.assert_allclose(solver.times, record["realised_times"], rtol=1e-13, atol=1e-14)
    levels = [np.nan if v is None else v for v in record["network_levels"]]
    np.testing.assert_allclose(np.array(solver.levels, float), levels, rtol=1e-13)


def test_an_unknown_preset_is_answered_with_near_ones():
    with pytest.raises(ValueError, match="ms-coco-nfe16"):
        dyweight.preset("mscoco-nfe16")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "format"),
        ({"version": 7}, "version 7"),
        ({"method": "x"}, "method"),
        ({"steps": 3}, "4 rows of weights for 3 steps"),
        ({"steps": True}, "steps"),
        ({"order": 2}, "longest row has 3"),
        ({"nfe": 5}, "make 3 calls"),
        ({"prediction": "noise"}, "prediction"),
        ({"weights": [[1.0], [0.1, 0.2, 0.7], [1.0], [1.0]]}, "step 1 has 3 weights"),
        ({"weights": [[1.0], [], [1.0], [1.0]]}, "step 1 has 0"),
        ({"weights": [[float("inf")], [1.0], [1.0], [1.0]]}, "weights of step 0"),
        ({"weights": 3}, "weights"),
        ({"time_scale": [1.0]}, "1 time scales for 4 steps"),
        ({"time_scale": ["1"]}, "time_scale"),
        ({"sigma_min": 90.0}, "no range"),
        ({"sigma_max": None}, "sigma_max"),
        ({"schedule": {"kind": "cubic", "rho": 1.0}}, "cubic"),
        ({"schedule": {"kind": "discrete", "table": "x", "rho": 1.0}}, "'x'"),
        ({"schedule": {"kind": "karras"}}, "rho"),
        ({"schedule": None}, "rho|schedule"),
        ({"schedule": {"kind": "flow", "shift": -1.0}}, "shift"),
        ({"schedule": {"kind": "explicit", "sigmas": [3.0, 2.0, 2.0, 1.0, 0.0]}}, "must fall"),
        ({"schedule": {"kind": "explicit", "sigmas": [3.0, 2.0]}}, "2 levels for 4 steps"),
        ({"afs": 1}, "afs"),
    ],
)
def test_wrong_files_say_what_is_wrong(record, change, says):
    SolverFile(record)
    with pytest.raises(SolverFileError, match=says):
        SolverFile({**record, **change})


def test_a_wider_span_is_refused_with_a_way_out(record):
    names = ("order", "weights", "time_scale")
    body = {name: record[name] for name in names}
    current = {**{k: v for k, v in record.items() if k not in names}, "version": 2, "body": body}
    SolverFile(current)
    SolverFile({**current, "body": {**body, "span": {}}})
    for span in ({"bands": {"edges": [3.0]}, "operator": {}}, {"embedding": {"shifts": [[0.1]]}}, [1], "bands"):
        with pytest.raises(SolverFileError, match="wider span .*(bands|embedding|1).*dyweight sample"):
            SolverFile({**current, "body": {**body, "span": span}})


def test_a_file_that_is_none_is_named(tmp_path, record):
    path = tmp_path / "broken.json"
    text = json.dumps(record)
    for content in ("", "[]", text[:-5], text.replace("1.05", "NaN"), "[" * 100_000, "\xff"):
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(SolverFileError, match="broken.json"):
            SolverFile.load(path)
    with pytest.raises(FileNotFoundError):
        SolverFile.load(tmp_path / "absent.json")


def test_rows_of_a_run_that_starts_in_the_middle_keep_their_sum(record):
    solver = SolverFile(record)
    assert solver.row(3, 9) == [0.35, -1.3, 1.9]
    assert solver.row(3, 3) == [0.35, -1.3, 1.9]
    assert solver.row(3, 2) == [0.35 - 1.3, 1.9]
    assert solver.row(3, 1) == pytest.approx([0.95])


# From an f64 evaluation of the released wrapper, inside and beyond the table.
@pytest.mark.parametrize(
    ("sigma", "timestep"),
    [(0.02, -0.5267925805052301), (0.5, 169.31397994343095), (7.0, 865.747097030433), (80.0, 1280.2564065902325)],
)
def test_timesteps_of_the_reference(sigma, timestep):
    table = NoiseTable.scaled_linear(0.00085, 0.012)
    assert table.timestep(sigma) == pytest.approx(timestep, rel=1e-10)
    assert table.sigma(timestep) == pytest.approx(sigma, rel=1e-10)


def test_reading_needs_nothing_but_the_standard_library():
    code = (
        "import sys; from dyweight import presets, solver_file; solver_file.SolverFile(presets.record('flux-nfe5'));"
        " print({'torch', 'numpy', 'diffusers'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(__import__("pathlib").Path(dyweight.__file__).parents[1])}
                          ).stdout.strip() == "set()"  # fmt: skip


def test_solvers_are_read_without_the_compiled_part(tmp_path):
    """The same numbers, and the same errors."""
    code = """
import sys
sys.modules["dyweight._native"] = None
import json, dyweight
solver = dyweight.preset("cifar10-nfe5")
print(json.dumps([solver.times.tolist(), solver.sigmas.tolist(), solver.run_sigmas, solver.calls, repr(solver)]))
try:
    dyweight.Solver({**solver.record, "steps": 99})
except dyweight.SolverFileError as error:
    assert "rows of weights for 99 steps" in str(error)
else:
    raise SystemExit("a wrong file was taken")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    solver = dyweight.preset("cifar10-nfe5")
    times, sigmas, run, calls, name = json.loads(done.stdout)
    np.testing.assert_allclose(times, solver.times, rtol=1e-13)
    np.testing.assert_allclose(sigmas, solver.sigmas, rtol=1e-13)
    np.testing.assert_allclose(run, solver.run_sigmas, rtol=1e-13)
    assert (calls, name) == (solver.calls, repr(solver))
