"""A user's program as a type checker sees it: `mypy --strict tests/typed.py`. Nothing here is run."""

from pathlib import Path

import diffusers
import torch
from typing_extensions import assert_type

import dyweight


def predict_noise(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return x * t[:, None, None, None]


def use(folder: Path) -> None:
    model = dyweight.Model(predict_noise, shape=(3, 8, 8), prediction="eps", sigma_range=(0.01, 80.0))
    solver = dyweight.train(model, nfe=5, iters=10, out=folder / "solver.json")
    assert_type(solver, dyweight.Solver)
    assert_type(dyweight.Solver.load(folder / "solver.json"), dyweight.Solver)
    assert_type(model, dyweight.Model[torch.Tensor])
    assert_type(dyweight.sample(model, solver, seeds=range(4)), torch.Tensor)
    found = dyweight.compare(model, ["ddim", "unipc"], [solver], seeds=range(8), out=folder / "comparison")
    assert_type(found, dyweight.Comparison | None)


def use_a_pipeline(pipe: diffusers.DiffusionPipeline) -> None:
    found = dyweight.few_steps(pipe, 5, ["a red bicycle"], guidance_scale=5.0, pairs=8)
    assert_type(found, dyweight.FewSteps)
    assert_type(found.distances, dict[str, float])
    assert_type(dyweight.train_pipeline(pipe, ["a red bicycle"], 10, 5.0, pairs=8), dyweight.Solver)
