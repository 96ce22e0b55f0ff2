"""Learning a solver for a model: what `dyweight train` does, for a model that stays in Python."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native
from .distributed import Comm
from .model import Array, Model
from .progress import Bar
from .solver import Solver


class Iteration(NamedTuple):
    """What one iteration did."""

    index: int  # type: ignore[assignment]  # tuples have a method of that name, which nobody needs here
    iterations: int
    loss: float
    rate: float
    gradient_norm: float
    validation: float | None
    event: str | None


def train(
    model: Model[Any],
    nfe: int | None = None,
    *,
    steps: int | None = None,
    conditions: int | Sequence[Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    trace: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[Iteration], Any] | None = None,
    comm: Comm | None = None,
    snapshot_seconds: float | None = None,
    **options: Any,
) -> Solver:
    """Learns a solver of `nfe` network calls for a model.

    >>> import torch, dyweight
    >>> def denoiser(x, sigma):                                            # the exact one of two Gaussians
    ...     means, v = torch.tensor([[-0.5], [0.7]], dtype=x.dtype), 0.01 + sigma[:, None] ** 2
    ...     r = torch.softmax(-(x - means.T) ** 2 / (2 * v), -1)
    ...     return (0.01 * x + sigma[:, None] ** 2 * (r @ means)) / v
    >>> model = dyweight.Model(denoiser, (1,), "denoised", (0.01, 20), dtype=torch.float64)
    >>> solver = dyweight.train(model, nfe=4, iters=30, batch=16, validation=32, lr=0.02, progress=False)
    >>> solver.nfe, solver.steps, solver.training["validation_loss"] < solver.training["ipndm_loss"]
    (4, 5, True)

    Arguments:
        nfe, steps: length of the solver in network calls, or in intervals of its grid.
        conditions: what the model is asked for, as in `Model`; every pair draws one.
        out: solver file to write. State and log of the run stand beside it.
        cache: directory that keeps the teacher's results across budgets and runs.
        resume: goes on with an interrupted run of `out`, or returns what a finished one has left.
        overwrite: starts anew over an interrupted run, or replaces a finished solver.
        trace: safetensors file for all parameters, losses and gradients.
        progress: True and False switch the bar of tqdm; a function sees every `Iteration` instead.
        comm: the processes that share the work, such as `dyweight.Comm()` under torchrun.
        options: those of `dyweight train --help` with underscores, with the same defaults: lr, iters, batch,
            micro_batch, memory ("keep" or "recompute"), teacher, teacher_nfe, loss, validation, patience, plain, seed,
            schedule, rho, sigma_min, sigma_max, guidance, class_ …

    An exception in the model's function comes back as itself, with a note of the step it happened in.
    """
    model = _conditioned(model, conditions)
    request = _request(nfe, steps, options)
    request.update(
        out=_path(out), cache=_path(cache), resume=resume, overwrite=overwrite, trace=_path(trace),
        snapshot_seconds=snapshot_seconds,
    )  # fmt: skip
    if out is not None or cache is not None:
        _ = model.fingerprint  # what is kept must know whose it is
    if comm is not None and comm.size > 1:
        _warn_of_idle_processes(model, request, comm)
    bar = Bar(progress is not False and not callable(progress) and (comm is None or comm.rank == 0), "training")

    def watch(*told: Any) -> None:
        iteration = Iteration(*told)
        if callable(progress):
            progress(iteration)
        note = f"loss {iteration.loss:.3e}"
        bar.move(iteration.iterations, iteration.index + 1, note, iteration.validation)

    with bar:
        return Solver(_native.train(model, json.dumps(request), comm, watch))


def plan(model: Model[Any], nfe: int | None = None, *, steps: int | None = None, **options: Any) -> dict[str, Any]:
    """What training would do, without doing it: steps, iterations, pairs, evaluations of the teacher, network calls.

    >>> import dyweight
    >>> model = dyweight.Model(lambda x, t: x / 2, (2,), "denoised", (0.1, 10), arrays="numpy")
    >>> found = dyweight.plan(model, nfe=5)
    >>> found["steps"], found["iterations"], found["pairs"], found["teacher_evaluations"]
    (6, 10, 48, 35)
    """
    return json.loads(_native.plan(model, json.dumps(_request(nfe, steps, options))))


class Estimate(NamedTuple):
    """How long training takes."""

    seconds_per_evaluation: float
    seconds_per_iteration: float
    seconds: float
    text: str

    def __str__(self) -> str:
        return self.text


def estimate(
    model: Model[Any], nfe: int | None = None, *, steps: int | None = None, seconds: float | None = None, **options: Any
) -> Estimate:
    """How long training would take, from the time of one evaluation of one sample: given, or measured by a call.

    The calls are those of `dyweight train --dry-run`: at most so many. One whose gradient is taken counts as three.

    >>> import dyweight
    >>> model = dyweight.Model(lambda x, t: x / 2, (2,), "denoised", (0.1, 10), arrays="numpy")
    >>> found = dyweight.estimate(model, nfe=5, recipe="paper", iters=10, seconds=0.05)
    >>> found.text.startswith("a call takes 0.05 s") and found.seconds > 35 * 16 * 10 * 0.05
    True
    """
    found = plan(model, nfe, steps=steps, **options)
    if seconds is None:
        seconds = _seconds(model)
    total = (found["calls"] + 3 * found["gradients"]) * seconds
    iteration = total / max(found["iterations"], 1)
    text = (
        f"a call takes {seconds:.3g} s for a sample; training makes at most {found['calls']} calls"
        f" and {found['gradients']} with gradients: {_duration(total)}"
    )
    return Estimate(seconds, iteration, total, text)


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def _seconds(model: Model[Any]) -> float:
    """Time of one evaluation of one sample; the first is slower than the rest."""
    best, level = float("inf"), sum(model.sigma_range) / 2
    for _ in range(2):
        begun = time.perf_counter()
        model(np.zeros((1, *model.shape)), level, [0] if model._count() else None)
        best = min(best, time.perf_counter() - begun)
    return best


def _conditioned(model: Model[Array], conditions: int | Sequence[Any] | None) -> Model[Array]:
    if not isinstance(model, Model):
        raise TypeError(f"model is {type(model).__name__}: make it a dyweight.Model first")
    return model if conditions is None else model.with_conditions(conditions)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _request(nfe: int | None, steps: int | None, options: dict[str, Any]) -> dict[str, Any]:
    """The request of the compiled part; options are spelled as in files there."""
    known = _native.option_names()
    named = {key.rstrip("_").replace("_", "-"): value for key, value in options.items() if value is not None}
    for key in named:
        if key not in known:
            import difflib

            near = [n.replace("-", "_") for n in difflib.get_close_matches(key, known, n=1)]
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"training has no option {key.replace('-', '_')!r}{hint}")
    return {"nfe": nfe, "steps": steps, "options": {k: _plain(v) for k, v in named.items()}}


def _plain(value: Any) -> Any:
    """Paths and numbers of numpy as JSON has them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _warn_of_idle_processes(model: Model[Any], request: dict[str, Any], comm: Comm) -> None:
    found = json.loads(_native.plan(model, json.dumps({**request, "out": None, "trace": None})))
    calls = -(-found["pairs"] // found["micro_batch"])
    if calls < comm.size and comm.rank == 0:
        share = max(found["pairs"] // comm.size, 1)
        warnings.warn(
            f"an iteration of {found['pairs']} pairs in batches of {found['micro_batch']} keeps {calls} of {comm.size}"
            f" processes busy; micro_batch={share} would keep all",
            stacklevel=3,
        )
