"""Files of a run: resuming, caches, what is in the way; solvers; comparisons."""

import json
import os
import subprocess
import sys
import textwrap
import warnings

import mixtures
import numpy as np
import pytest
import torch
from mixtures import SHORT

import dyweight
from dyweight.solver_file import SolverFile


class Stop(Exception):
    pass


def stop_at(index):
    def watch(iteration):
        if iteration.index == index:
            raise Stop

    return watch


def test_an_interrupted_run_is_resumed_to_the_same_bytes(tmp_path):
    options = {**SHORT, "nfe": 4, "cache": tmp_path / "cache"}
    whole = dyweight.train(mixtures.model(), **options, out=tmp_path / "whole.json")
    with pytest.raises(Stop):
        dyweight.train(mixtures.model(), **{**options, "progress": stop_at(5)}, out=tmp_path / "part.json")
    with pytest.raises(ValueError, match="interrupted run(.|\n)*resume=True"):
        dyweight.train(mixtures.model(), **options, out=tmp_path / "part.json")
    with pytest.raises(ValueError, match="state"):
        dyweight.train(mixtures.model(), **{**options, "lr": 0.5}, out=tmp_path / "part.json", resume=True)
    seen = []
    resumed = dyweight.train(
        mixtures.model(), **{**options, "progress": seen.append}, out=tmp_path / "part.json", resume=True
    )
    assert seen[0].index == 6 and resumed == whole
    for name in ("json", "stats.jsonl"):
        assert (tmp_path / f"whole.{name}").read_bytes() == (tmp_path / f"part.{name}").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["cache", *(f"{run}.{end}" for run in ("part", "whole") for end in ("config.json", "json", "stats.jsonl"))]
    )


def test_finished_solvers_are_kept_and_found_again(tmp_path):
    out, calls = tmp_path / "a.json", []
    model = mixtures.model(fingerprint="m")
    first = dyweight.train(model, nfe=3, out=out, **SHORT)
    model.fn = lambda x, s: calls.append(1) or x
    assert dyweight.train(model, nfe=3, out=out, resume=True, **SHORT) == first and not calls
    with pytest.raises(ValueError, match="there already"):
        dyweight.train(model, nfe=3, out=out, **SHORT)
    with pytest.raises(ValueError, match="there already"):
        dyweight.train(model, nfe=3, out=out, resume=True, **{**SHORT, "seed": 5})
    again = dyweight.train(mixtures.model(fingerprint="m"), nfe=3, out=out, overwrite=True, **{**SHORT, "seed": 5})
    assert dyweight.Solver.load(out) == again != first
    with pytest.raises(FileNotFoundError):
        dyweight.train(mixtures.model(), nfe=3, out=tmp_path / "no" / "a.json", **SHORT)


def test_a_cache_spares_the_teacher(tmp_path):
    calls = []

    def fn(x, sigma):
        calls.append(len(x))
        return mixture(x, sigma)

    mixture = mixtures.spiral()
    model = mixtures.model(fingerprint="m")
    model.fn = fn
    options = {**SHORT, "cache": tmp_path, "plain": True, "validation": None}
    first = dyweight.train(model, nfe=4, **options)
    made = len(calls)
    calls.clear()
    assert dyweight.train(model, nfe=4, **options) == first
    assert len(calls) == SHORT["iters"] * 8 < made
    calls.clear()
    dyweight.train(model, nfe=5, **options)
    assert len(calls) == SHORT["iters"] * 10


def test_solvers_are_read_drawn_and_saved(tmp_path):
    for name in dyweight.preset_names():
        solver, plain = dyweight.Solver.preset(name), SolverFile(dyweight.preset(name).record)
        assert np.allclose(solver.sigmas, plain.sigmas, rtol=1e-12) and np.allclose(solver.times, plain.times, rtol=1e-12)
        assert [row[row != 0].tolist() for row in solver.weights] == [[w for w in r if w != 0] for r in plain.weights]
        assert np.isnan(solver.levels[0]) == solver.record["afs"]
    solver.save(tmp_path / "a.json")
    assert dyweight.Solver.load(tmp_path / "a.json") == solver == dyweight.Solver(solver.record)
    assert SolverFile.load(tmp_path / "a.json").times == solver.times.tolist()
    assert solver._repr_svg_().startswith("<svg") and "calls" in repr(solver)
    record = {**solver.record, "steps": 99}
    with pytest.raises(dyweight.SolverFileError, match="7 rows for 99 steps"):
        dyweight.Solver(record)
    with pytest.raises(ValueError, match="near ones are cifar10-nfe3"):
        dyweight.Solver.preset("cifar10-nfe33")
    with pytest.raises(FileNotFoundError, match="no.json"):
        dyweight.Solver.load(tmp_path / "no.json")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(dyweight.SolverFileError, match=r"b\.json"):
        dyweight.Solver.load(tmp_path / "b.json")


def test_a_solver_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="predicts another quantity"):
        dyweight.sample(mixtures.model(), dyweight.Solver.preset("flux-nfe3"), seeds=[0])
    with pytest.raises(ValueError, match="makes 3 calls"):
        dyweight.sample(mixtures.model(), dyweight.Solver.preset("cifar10-nfe3"), seeds=[0], nfe=4)
    with pytest.raises(ValueError, match=r"noise has shape \[2, 2\]"):
        dyweight.sample(mixtures.model(), "ddim", np.zeros((2, 2)), nfe=4)


def test_comparing_gives_the_numbers_of_the_program(run, tmp_path):
    solver = dyweight.train(mixtures.model(), nfe=4, iters=40, batch=16, validation=16, progress=False)
    solver.save(tmp_path / "dyweight-nfe4.json")
    found = dyweight.compare(
        mixtures.model(), ["ddim", "dpmpp:2", "ipndm"], [solver], out=tmp_path / "ours", progress=False
    )
    told = json.loads(
        run("compare", "--model", "mixture", "--solvers", "ddim,dpmpp:2,ipndm", "--solver-file",
            tmp_path / "dyweight-nfe4.json", "--seeds", "0-63", "--out", tmp_path / "theirs", "--json")  # fmt: skip
    )
    theirs = {score["row"]: score["rmse"] for score in told["scores"]}
    assert found.solvers == ["Euler (DDIM)", "DPM-Solver++(2M)", "iPNDM", "dyweight"] and found.budgets == [4]
    for row in found.solvers:
        ours = found.score(row, 4)
        assert abs(ours["rmse"] - theirs[row]["value"]) < 1e-8 and abs(ours["error"] - theirs[row]["error"]) < 1e-8
    assert found.page.read_text().startswith("<!doctype html>") and "| dyweight |" in found.table
    assert "the teacher than the best of" in found.headline and "handcrafted settings" in found.headline
    # What is on record is not computed again.
    still = mixtures.model(fingerprint=mixtures.model().fingerprint)
    still.fn = None
    again = dyweight.compare(still, ["ddim", "dpmpp:2", "ipndm"], [solver], out=tmp_path / "ours", progress=False)
    assert again.scores == found.scores


def test_two_solvers_of_as_many_calls_are_two_rows(tmp_path):
    solvers = [dyweight.Solver.preset("cifar10-nfe3"), dyweight.Solver.preset("ffhq-nfe3")]
    found = dyweight.compare(mixtures.model(), [], solvers, seeds=range(4), search=False, out=tmp_path, progress=False)
    assert found.solvers == ["dyweight", "dyweight-2"] and found.budgets == [3]
    assert found.score("dyweight", 3)["rmse"] != found.score("dyweight-2", 3)["rmse"]


def test_the_command_takes_a_model_by_its_import_path(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch, dyweight\n"
        "def fn(x, s): return x / (1 + s**2)[:, None] + 0.1 * torch.tanh(x)\n"
        "def model(): return dyweight.Model(fn, (2,), 'denoised', (0.01, 10), dtype=torch.float64)\n"
    )
    options = "--nfe 3,4 --out out --seeds 0-7 --iters 3 --batch 4 --validation 4 --teacher-nfe 12".split()
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(mixtures.paths())}

    def command(*arguments):
        words = [sys.executable, "-m", "dyweight", *arguments]
        return subprocess.run(words, cwd=tmp_path, env=paths, capture_output=True, text=True, timeout=300)

    done = command("mine:model", *options)
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert table[0] == "| solver | 3 calls | 4 calls |" and len(table) == 7
    again = command("mine:model", *options)
    assert [line for line in again.stdout.splitlines() if line.startswith("| ")] == table
    plain = command("mine:fn", "--shape", "2", "--prediction", "denoised", "--sigma-range", "0.01,10", *options[:2], "--out", "b", *options[4:])
    assert plain.returncode == 0, plain.stderr
    for wrong, says in {"mine": "module:function", "mine:no": "no attribute", "none:no": "none", "mine:fn": "fn"}.items():
        assert says in command(wrong).stderr, wrong


def test_ctrl_c_stops_a_comparison(tmp_path):
    import signal

    fn = mixtures.spiral()

    def interrupted(x, sigma):
        signal.raise_signal(signal.SIGINT)
        return fn(x, sigma)

    model = mixtures.model(fingerprint="m")
    model.fn = interrupted
    with pytest.raises(KeyboardInterrupt):
        dyweight.compare(model, ["ddim"], nfe=[4], out=tmp_path, progress=False)


TOGETHER = """
import os, sys
sys.path[:0] = {path!r}
import torch, dyweight, mixtures
torch.manual_seed(0)
# A network whose last bits depend on the size of its batch, as those of real ones do.
net = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.SiLU(), torch.nn.Linear(96, 48)).requires_grad_(False)
def fn(x, t):
    return net(x.flatten(1) + t[:, None].log()).reshape(x.shape)
model = dyweight.Model(fn, (3, 4, 4), "eps", (0.01, 20.0), fingerprint="net")
comm = dyweight.Comm()
options = dict(iters=6, batch=10, micro_batch=3, validation=7, teacher_nfe=12, progress=False, comm=comm)
solver = dyweight.train(model, nfe=4, out=sys.argv[1] + "/a.json", cache=sys.argv[1] + "/cache", **options)
assert os.path.exists(sys.argv[1] + "/a.json"), "a process returned before the solver was written"
found = dyweight.compare(model, ["ddim", "ipndm"], [solver], seeds="0-12", batch=3, out=sys.argv[1] + "/c",
    teacher_nfe=12, progress=False, comm=comm)
assert (found is None) == (comm.rank > 0)
print(comm.rank, comm.size, solver)
"""


def contents(folder):
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("times.jsonl", "report.html", "report.md")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def test_two_processes_leave_the_bytes_of_one(tmp_path):
    """Under torchrun with gloo: solver, log, cache and comparison."""
    script = tmp_path / "script.py"
    script.write_text(TOGETHER.format(path=mixtures.paths()))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name, start in {"one": [], "two": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]}.items():
        (tmp_path / name).mkdir()
        done = subprocess.run(
            [sys.executable, *start, script, tmp_path / name], capture_output=True, text=True, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Solver(") == (2 if name == "two" else 1)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert "a.json" in one and any(name.startswith("cache") for name in one)
    assert {k for k in one if one[k] != two.get(k)} == set() and set(one) == set(two)


def test_a_failure_in_one_process_ends_all(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path[:0] = {mixtures.paths()!r}
            import dyweight, mixtures
            comm, fn = dyweight.Comm(), mixtures.spiral()
            def failing(x, sigma):
                failing.calls += 1
                if comm.rank == 1 and failing.calls == 30:
                    raise LookupError("lost")
                return fn(x, sigma)
            failing.calls = 0
            model = mixtures.model()
            model.fn = failing
            try:
                dyweight.train(model, nfe=4, iters=50, batch=8, micro_batch=4, validation=8, progress=False, comm=comm)
            except Exception as error:
                # In one piece: both write to the same pipe.
                sys.stdout.write(f"{{comm.rank}}: {{type(error).__name__}}: {{error}}\\n")
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    said = sorted(done.stdout.splitlines())
    assert said[0].startswith("0: RuntimeError: in another process: ") and "lost" in said[0], (said, done.stderr)
    assert said[1] == "1: LookupError: 'lost'" or said[1] == "1: LookupError: lost"


def towards(target):
    """A model that is asked by arrays, or by the numbers of a list that it keeps."""

    def fn(x, sigma, conditions):
        if not isinstance(conditions, list):
            conditions = [target[int(c)] for c in conditions]
        means = torch.stack([torch.as_tensor(np.asarray(c)) for c in conditions])
        shrink = 0.04 / (0.04 + sigma[:, None] ** 2)
        return shrink * x + (1 - shrink) * means

    return fn


def asked(conditions, **options):
    return dyweight.Model(
        towards(conditions), (2,), "denoised", (0.01, 10), conditions=conditions, dtype=torch.float64, **options
    )


CONDITIONS = [np.array([float(i), 1.0]) for i in range(5)]
OTHER = [*CONDITIONS[:2], np.array([9.0, 1.0]), *CONDITIONS[3:]]


def test_another_condition_in_the_middle_is_another_model():
    known = asked(CONDITIONS).fingerprint
    assert known == asked([c.copy() for c in CONDITIONS]).fingerprint
    assert known != asked(OTHER).fingerprint
    assert known != asked(CONDITIONS, negative=np.zeros(2)).fingerprint
    numbered = [
        dyweight.Model(towards(all), (2,), "denoised", (0.01, 10), conditions=5, dtype=torch.float64).fingerprint
        for all in (CONDITIONS, OTHER)
    ]
    assert numbered[0] != numbered[1]


def test_what_is_kept_belongs_to_the_conditions_it_was_made_for(tmp_path):
    fresh = dyweight.train(asked(OTHER), nfe=3, **SHORT)
    dyweight.train(asked(CONDITIONS), nfe=3, cache=tmp_path / "cache", **SHORT)
    cached = dyweight.train(asked(OTHER), nfe=3, cache=tmp_path / "cache", **SHORT)
    assert cached.training["validation_loss"] == fresh.training["validation_loss"]
    out = tmp_path / "a.json"
    with pytest.raises(Stop):
        dyweight.train(asked(CONDITIONS), nfe=3, out=out, **{**SHORT, "progress": stop_at(2)})
    with pytest.raises(ValueError, match="another run(.|\n)*model"):
        dyweight.train(asked(OTHER), nfe=3, out=out, resume=True, **SHORT)
    finished = tmp_path / "b.json"
    dyweight.train(asked(CONDITIONS), nfe=3, out=finished, **SHORT)
    with pytest.raises(ValueError, match="there already"):
        dyweight.train(asked(OTHER), nfe=3, out=finished, resume=True, **SHORT)


def test_a_solver_used_on_another_model_says_so(tmp_path):
    solver = dyweight.train(mixtures.model(), nfe=3, out=tmp_path / "a.json", **SHORT)
    noise = np.ones((1, 2, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("default", "nothing was gained")
        dyweight.sample(mixtures.model(), solver, noise=noise)
    with pytest.warns(UserWarning, match="learned for 'mixture', not for 'other'"):
        dyweight.sample(mixtures.model(name="other"), solver, noise=noise)
    with pytest.raises(ValueError, match="another quantity"):
        dyweight.sample(mixtures.model(flow=True), solver, noise=noise)
