"""What a pipeline does with its scheduler, written down: the pipeline itself is never looked into.

    scheduler, log = watched(scheduler)         of the same class, as far as anybody can tell
    pipe.scheduler = scheduler
    pipe(…)                                     log: timesteps, evaluations, where every run of the scheduler ended
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch


class Reached(BaseException):
    """Ends a pipeline's run before its first step, where only the grid was wanted."""


class Log:
    """Of one run of a pipeline."""

    def __init__(self, stop: bool = False, keep: bool = False) -> None:
        self.stop, self.keep = stop, keep
        #: Arguments of every call of `set_timesteps`, and the timesteps after it.
        self.offered: list[dict[str, Any]] = []
        self.timesteps: list[float] = []
        #: Index of the first network call in the timesteps: above 0 for image to image.
        self.begin: int | None = None
        self.noise_was_scaled = False
        #: Every scheduler's runs (pipelines copy theirs), with the evaluations and the last state of each.
        self.runs: dict[int, dict[str, Any]] = {}
        self.states: list[torch.Tensor] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Log:
        return self

    @property
    def evaluations(self) -> int:
        """Network evaluations of a sample."""
        return max((run["steps"] for run in self.runs.values()), default=0)

    @property
    def end(self) -> torch.Tensor:
        """Where the run ended: the last states of all schedulers, one behind the other."""
        ends = [run["end"].detach().flatten().double().cpu() for run in self.runs.values()]
        return torch.cat(ends) if ends else torch.zeros(0, dtype=torch.float64)

    def before_step(self, scheduler: Any, timestep: Any) -> None:
        if self.begin is None:
            index = getattr(scheduler, "step_index", None)
            index = _index(self.timesteps, timestep) if index is None else index
            begin = getattr(scheduler, "begin_index", None)
            self.begin = int(begin if begin is not None else index)
        if self.stop:
            raise Reached

    def after_step(self, scheduler: Any, result: Any) -> None:
        run = self.runs.setdefault(id(scheduler), {"scheduler": scheduler, "steps": 0, "seen": set()})
        # A step that is taken back and made again is one step.
        place = getattr(scheduler, "step_index", None)
        run["steps"] += place is None or place not in run["seen"]
        run["seen"].add(place)
        run["end"] = result[0]
        if self.keep and run is next(iter(self.runs.values())):
            self.states.append(result[0].detach().clone())


def _index(timesteps: list[float], timestep: Any) -> int:
    told = float(torch.as_tensor(timestep).flatten()[0])
    return min(range(len(timesteps)), key=lambda i: abs(timesteps[i] - told), default=0)


def watched(scheduler: Any, log: Log, pass_over: bool = False) -> Any:
    """The scheduler, with everything it is asked written down. With `pass_over` it takes what its class does not."""
    kind = type(scheduler)
    takes, step_takes = inspect.signature(kind.set_timesteps).parameters, inspect.signature(kind.step).parameters

    @functools.wraps(kind.set_timesteps)
    def set_timesteps(self: Any, *given: Any, **named: Any) -> Any:
        bound = {**dict(zip(list(takes)[1:], given)), **named}
        if pass_over:
            bound = _taken(self, bound, takes)
        result = kind.set_timesteps(self, **bound)
        for run in log.runs.values():
            run["seen"] = set()
        log.offered.append({k: v for k, v in bound.items() if k != "device" and v is not None})
        log.timesteps = [float(t) for t in self.timesteps]
        return result

    @functools.wraps(kind.step)
    def step(self: Any, output: Any, timestep: Any, *given: Any, **named: Any) -> Any:
        log.before_step(self, timestep)
        if pass_over:
            named = {key: value for key, value in named.items() if key in step_takes}
        result = kind.step(self, output, timestep, *given, **named)
        log.after_step(self, result)
        return result

    class Watched(kind):  # type: ignore[misc, valid-type]
        pass

    Watched.set_timesteps, Watched.step = set_timesteps, step
    if pass_over:
        set_timesteps.__signature__ = _with_grids(takes)  # type: ignore[attr-defined]
    if not hasattr(kind, "scale_model_input"):
        # Pipelines that compare classes take this one for one that scales.
        Watched.scale_model_input = lambda self, sample, *_, **__: sample
    for name in ("__name__", "__qualname__", "__module__"):
        setattr(Watched, name, getattr(kind, name))
    _watch_noise(Watched, kind, log)
    scheduler.__class__ = Watched
    return scheduler


def _watch_noise(watched_kind: Any, kind: Any, log: Log) -> None:
    """Whether the pipeline scales its noise: only then can an analytical first step be part of it."""
    if isinstance(getattr(kind, "init_noise_sigma", None), property):

        def init_noise_sigma(self: Any) -> Any:
            log.noise_was_scaled = True
            return kind.init_noise_sigma.fget(self)

        watched_kind.init_noise_sigma = property(init_noise_sigma)


def _taken(scheduler: Any, bound: dict[str, Any], takes: Any) -> dict[str, Any]:
    """What a rival's class takes; the number of steps then says what a grid would have said."""
    if not scheduler.config.get("use_dynamic_shifting"):
        bound = {k: v for k, v in bound.items() if k != "mu"}
    kept = {k: v for k, v in bound.items() if k in takes}
    dropped = next((bound[k] for k in ("sigmas", "timesteps") if bound.get(k) is not None and k not in takes), None)
    if dropped is not None and kept.get("num_inference_steps") is None:
        kept["num_inference_steps"] = len(dropped)
    return kept


def _with_grids(takes: Any) -> inspect.Signature:
    missing = [n for n in ("sigmas", "timesteps", "mu") if n not in takes]
    more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in missing]
    return inspect.Signature([*takes.values(), *more])
