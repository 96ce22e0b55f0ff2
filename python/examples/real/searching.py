"""The best handcrafted solver: every method, order, grid and start of a list, tried on pairs of their own.

All settings see a few pairs, the best of them more, and the best of these all. A setting that cannot make the calls, or
diverges, drops out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measuring import Truth, sampled, squares
from subject import Subject

METHODS = (
    "ddim", "heun", "dpm2", "ipndm:2", "ipndm:3", "ipndm:4", "ipndm-v:2", "ipndm-v:3", "deis-tab:2", "deis-tab:3",
    "dpmpp:2", "dpmpp:3", "unipc:2", "unipc:3",
)  # fmt: skip
GRIDS: tuple[dict[str, Any], ...] = (
    {"schedule": "karras", "rho": 7.0}, {"schedule": "karras", "rho": 5.0}, {"schedule": "karras", "rho": 3.0},
    {"schedule": "logsnr"}, {"schedule": "time-uniform", "rho": 1.0}, {"schedule": "time-uniform", "rho": 2.0},
)  # fmt: skip
FLOW_METHODS = (
    "ddim",
    "heun",
    "ipndm:2",
    "ipndm:3",
    "ipndm:4",
    "ipndm-v:2",
    "ipndm-v:3",
    "dpmpp:2",
    "dpmpp:3",
    "unipc:2",
    "unipc:3",
)
FLOW_GRIDS: tuple[dict[str, Any], ...] = tuple(
    {"schedule": "flow", "shift": shift} for shift in (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
)
# Pairs that all settings see, and how many settings see more: a sixth of them twice as many, a twentieth all.
ROUNDS = ((0.25, 1.0), (0.5, 1 / 6), (1.0, 1 / 20))


@dataclasses.dataclass(frozen=True)
class Setting:
    """A handcrafted solver with everything a user can choose about it."""

    method: str
    grid: dict[str, Any]
    afs: bool

    def __str__(self) -> str:
        number = self.grid.get("rho", self.grid.get("shift"))
        grid = self.grid["schedule"] + ("" if number is None else f" {number:g}")
        return f"{self.method}, {grid}" + (", AFS" if self.afs else "")

    def ends(self, subject: Subject, calls: int, truth: Truth) -> np.ndarray:
        return sampled(subject, self.method, truth, nfe=calls, afs=self.afs, **self.grid)


def settings(subject: Subject) -> Iterator[Setting]:
    if subject.model.prediction == "velocity":
        yield from (Setting(method, grid, False) for method in FLOW_METHODS for grid in FLOW_GRIDS)
        return
    yield from (Setting(method, grid, afs) for method in METHODS for grid in GRIDS for afs in (False, True))


def distance(setting: Setting, subject: Subject, calls: int, truth: Truth) -> float | None:
    """Root mean square; None where the setting cannot make the calls."""
    try:
        found = float(np.sqrt(squares(setting.ends(subject, calls, truth), truth).mean()))
    except (ValueError, ArithmeticError):
        return None
    return found if math.isfinite(found) else None


def best(subject: Subject, calls: int, pairs: Truth, say: Callable[[str], None]) -> tuple[Setting, int]:
    """The best setting, and how many could make the calls."""
    left, tried = list(settings(subject)), 0
    for share, kept in ROUNDS:
        seen = pairs.first(max(2, round(share * len(pairs.noise))))
        left = left[: max(2, math.ceil(kept * tried))] if tried else left
        found = [(distance(setting, subject, calls, seen), index, setting) for index, setting in enumerate(left)]
        ranked = sorted((value, index, setting) for value, index, setting in found if value is not None)
        tried = tried or len(ranked)
        left = [setting for _, _, setting in ranked]
        say(f"{calls} calls: {len(ranked)} settings on {len(seen.noise)} pairs, best {left[0]} at {ranked[0][0]:.4f}")
    return left[0], tried
