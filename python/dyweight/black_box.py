"""A pipeline as a function of its scheduler: where it ends from the same noise, and nothing else.

    box = BlackBox(pipe, conditions, call)
    end = box.run(scheduler, steps=5, pair=(condition, seed)).end

The pipeline is called as it is: guidance, ControlNets, masks, reference images, second networks are its own business.
Its scheduler, its progress bar and the random numbers of the process are as they were found when `borrowed` ends.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from .watching import Log, Reached, watched

Pair = tuple[int, int]

#: What is no part of what a pipeline is asked for, and why.
_CHOSEN_HERE = {
    "num_inference_steps": "",
    "generator": "",
    "latents": " (every pair has noise of its own)",
    "sigmas": " (the grid is learned)",
    "timesteps": " (the grid is learned)",
    "denoising_end": " (a run goes to its end)",
}


class BlackBox:
    """`conditions` are what the pipeline is called with, one dictionary each; `call` is common to all."""

    def __init__(self, pipe: Any, conditions: Sequence[dict[str, Any]], call: dict[str, Any]) -> None:
        self.pipe, self.conditions, self.call = pipe, list(conditions), dict(call)
        self.kind = type(pipe).__name__
        if getattr(pipe, "scheduler", None) is None or not hasattr(pipe.scheduler, "set_timesteps"):
            raise ValueError(f"{self.kind} has no scheduler of its own: give the part of it that has one")
        self.own = pipe.scheduler
        #: What a run shows of the process beyond the scheduler's own settings.
        self.settings: dict[str, Any] = {}
        self.takes = _arguments(pipe)
        self._check_arguments()
        #: Decoding is spared where the pipeline can: no picture is looked at.
        self._latent = "output_type" in self.takes and "output_type" not in self.call

    def _check_arguments(self) -> None:
        if "num_inference_steps" not in self.takes:
            raise ValueError(f"{self.kind} is not called with num_inference_steps: its number of steps cannot be chosen")
        free = any(p.kind == p.VAR_KEYWORD for p in self.takes.values())
        for name in {name for given in (self.call, *self.conditions) for name in given}:
            if name in _CHOSEN_HERE:
                raise ValueError(f"{name} is chosen here{_CHOSEN_HERE[name]}: leave it out of the call")
            near = difflib.get_close_matches(name, self.takes, 1, 0.85)
            if name not in self.takes and (near or not free):
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{self.kind} takes no argument {name!r}{hint}")

    def fresh(self) -> Any:
        """The pipeline's own scheduler, as it was found."""
        return copy.deepcopy(self.own)

    def run(
        self, scheduler: Any, steps: int, pair: Pair, *, stop: bool = False, keep: bool = False, rival: bool = False
    ) -> Log:
        """Calls the pipeline. With `stop` no further than to the first step."""
        log = Log(stop, keep)
        self.pipe.scheduler = watched(scheduler, log, pass_over=rival)
        try:
            self._call(steps, pair)
        except Reached:
            pass
        except BaseException:
            self._let_go()
            raise
        if stop:
            self._let_go()
        elif log.evaluations == 0:
            raise NotImplementedError(f"{self.kind} never calls its scheduler's step: nothing can be learned")
        return log

    def _call(self, steps: int, pair: Pair) -> None:
        condition, seed = pair
        named = {**self.call, **self.conditions[condition], "num_inference_steps": steps}
        if self._latent:
            named["output_type"] = "latent"
        with torch.random.fork_rng(devices=_devices(self.pipe)):
            torch.manual_seed(seed)
            if "generator" in self.takes:
                named["generator"] = torch.Generator("cpu").manual_seed(seed)
            self.pipe(**named)

    def _let_go(self) -> None:
        """What a pipeline does at its end and could not: hooks of offloaded networks."""
        with contextlib.suppress(Exception):
            self.pipe.maybe_free_model_hooks()

    def without_latents(self) -> None:
        """For pipelines that have an `output_type` but know none of latents."""
        self._latent = False

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[None]:
        """While this lasts, the pipeline runs other schedulers without showing it."""
        bars = [(owner, vars(owner).get("_progress_bar_config")) for owner in _with_bars(self.pipe)]
        try:
            for owner, bar in bars:
                owner._progress_bar_config = {**(bar or {}), "disable": True}
            yield
        finally:
            self.pipe.scheduler = self.own
            for owner, bar in bars:
                if bar is None:
                    del owner._progress_bar_config
                else:
                    owner._progress_bar_config = bar


def _arguments(pipe: Any) -> Mapping[str, inspect.Parameter]:
    """What a pipeline may be called with. A modular one asks its blocks."""
    blocks = getattr(pipe, "_blocks", None)
    if blocks is None:
        return inspect.signature(type(pipe).__call__).parameters
    named = [i for i in blocks.inputs if i.name]
    return {i.name: inspect.Parameter(i.name, inspect.Parameter.KEYWORD_ONLY, default=i.default) for i in named}


def _with_bars(pipe: Any) -> list[Any]:
    """What shows progress: a pipeline, or blocks of a modular one."""
    if not hasattr(pipe, "_blocks"):
        return [pipe]
    found, asked = [], [pipe._blocks]
    while asked:
        block = asked.pop()
        found += [block] if hasattr(block, "progress_bar") else []
        asked += list(dict(getattr(block, "sub_blocks", None) or {}).values())
    return found


def _devices(pipe: Any) -> list[Any]:
    """Accelerators whose random numbers a run may draw."""
    device = getattr(pipe, "_execution_device", getattr(pipe, "device", None))
    return [device] if getattr(device, "type", "cpu") == "cuda" else []
