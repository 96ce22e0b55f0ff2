"""Learned solvers in Hugging Face diffusers: the scheduler, and learning a solver for a pipeline as it is.

    pipe.scheduler = DyWeightScheduler.from_file("solver.json", pipe.scheduler)
    dyweight.few_steps(pipe, steps=5, prompts=["a red bicycle", …])

Documentation: docs/diffusers.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .process import UnknownProcess, process_of
from .scheduler import DyWeightScheduler, DyWeightSchedulerOutput
from .solver_file import SolverFileError

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline
    from typing_extensions import Unpack

    from .pipelines import Options
    from .solver import Solver

__all__ = [
    "DyWeightScheduler",
    "DyWeightSchedulerOutput",
    "SolverFileError",
    "UnknownProcess",
    "process_of",
    "train_pipeline",
]


def train_pipeline(
    pipe: DiffusionPipeline,
    prompts: Sequence[str | dict[str, object]] | None,
    nfe: int,
    guidance_scale: float | None = None,
    *,
    call: dict[str, object] | None = None,
    **options: Unpack[Options],
) -> Solver:
    """Learns a solver of `nfe` network calls for a pipeline and sets it. See `dyweight.few_steps`, which counts steps."""
    try:
        pipelines = importlib.import_module("dyweight.pipelines")
    except ImportError as error:
        raise ImportError(
            "learning needs the compiled part of the package (dyweight._native), which is not installed here;"
            " solver files, presets and the scheduler work without it"
        ) from error
    learned: Solver = pipelines.train_pipeline(pipe, prompts, nfe, guidance_scale, call=call, **options)
    return learned
