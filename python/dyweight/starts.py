"""Where learning begins: the solvers that diffusers has, written as weights of slopes, and a few more.

A multistep scheduler is linear in the state and in what the network says. Given unit vectors for these, it says its own
coefficients: `as_weights` runs any scheduler that way. So a learned solver begins at the best of the handcrafted ones,
the pipeline's own among them, on the grid that each would use.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .process import Process

#: Schedulers that keep the state x itself; all others keep one of variance one.
_PLAIN = ("Euler", "Heun", "LMS", "KDPM2", "DPMSolverSDE", "EDM", "Cosine", "FlowMatch", "LTXEuler")


@dataclass
class Start:
    """A solver: levels σ_0 … σ_S and for each step its weights, newest last."""

    name: str
    sigmas: list[float]
    weights: list[list[float]]
    afs: bool = False

    def window(self, order: int) -> Start:
        """With rows no longer than `order`: what is older is taken as equal to the oldest that is kept."""
        rows = [[sum(row[: max(len(row) - order, 0) + 1]), *row[max(len(row) - order, 0) + 1 :]] for row in self.weights]
        return Start(self.name, self.sigmas, rows, self.afs)


def as_weights(name: str, scheduler: Any, process: Process, offered: dict[str, Any], begin: int, end: float) -> Start | None:
    """A scheduler's own coefficients from timestep `begin` on; none where it is no such solver."""
    takes = inspect.signature(type(scheduler).set_timesteps).parameters
    scheduler.set_timesteps(**{k: v for k, v in offered.items() if k in takes})
    told = [float(t) for t in scheduler.timesteps][begin:]
    sigmas = [*(process.level(t) for t in told), end]
    if len(told) < 1 or any(not a > b for a, b in itertools.pairwise(sigmas)):
        return None
    plain = process.flow or type(scheduler).__name__.startswith(_PLAIN)
    outer = [1.0 if plain else 1.0 / math.sqrt(1.0 + s * s) for s in sigmas]
    scheduler.set_begin_index(begin) if hasattr(scheduler, "set_begin_index") else None
    states = _states(scheduler, process, sigmas, outer, len(told), begin)
    return None if states is None else Start(name, sigmas, _rows(states, sigmas))


def _states(
    scheduler: Any, process: Process, sigmas: list[float], outer: list[float], steps: int, begin: int
) -> list[list[float]] | None:
    """Every state as coefficients of the first state and of the slopes; none if the first one's is not 1."""
    x = torch.zeros(1, steps + 1, 1, 1, dtype=torch.float64)
    x[0, 0] = 1.0
    states = [x]
    for i, t in enumerate(scheduler.timesteps[begin:]):
        slope = torch.zeros_like(x)
        slope[0, i + 1] = 1.0
        held = states[-1] * outer[i]
        if hasattr(scheduler, "scale_model_input"):
            scheduler.scale_model_input(held, t)
        output = process.answer(slope, states[-1], sigmas[i])
        held = scheduler.step(output, t, held, return_dict=False)[0].double()
        states.append(held / outer[i + 1])
    lists = [state.flatten().tolist() for state in states]
    sound = all(abs(state[0] - 1.0) < 1e-3 and all(map(math.isfinite, state)) for state in lists)
    return lists if sound else None


def _rows(states: list[list[float]], sigmas: list[float]) -> list[list[float]]:
    pairs = itertools.pairwise(states)
    return [
        [(after[j + 1] - before[j + 1]) / (sigmas[i + 1] - sigmas[i]) for j in range(i + 1)]
        for i, (before, after) in enumerate(pairs)
    ]


def adams(name: str, sigmas: Sequence[float], order: int) -> Start:
    """Adams–Bashforth on uneven levels: the slope's polynomial through the last `order` points, integrated."""
    rows = []
    for i in range(len(sigmas) - 1):
        points = sigmas[max(i - order + 1, 0) : i + 1]
        rows.append([_integral(points, k, sigmas[i], sigmas[i + 1]) for k in range(len(points))])
    return Start(name, list(sigmas), rows)


def _integral(points: Sequence[float], k: int, start: float, end: float) -> float:
    """Mean over [start, end] of the Lagrange polynomial that is 1 at point k, by Gauss's rule of three points."""
    half, middle = (end - start) / 2.0, (start + end) / 2.0
    nodes = ((-math.sqrt(0.6), 5.0), (0.0, 8.0), (math.sqrt(0.6), 5.0))
    others = [p for j, p in enumerate(points) if j != k]
    return sum(w * math.prod((middle + half * u - p) / (points[k] - p) for p in others) for u, w in nodes) / 18.0


def second_order_multistep(name: str, sigmas: Sequence[float], flow: bool) -> Start:
    """DPM-Solver++(2M) in slopes: the data prediction's line through the last two points, in λ = ln(α/σ).

    The first step is of first order, and so is one that ends at σ = 0, where λ is infinite.
    """

    def log_ratio(s: float) -> float:
        return math.log((1.0 - s if flow else 1.0) / s) if 0 < s and not (flow and s >= 1.0) else math.copysign(math.inf, -s)

    rows: list[list[float]] = []
    for i in range(len(sigmas) - 1):
        row = [0.0] * i + [1.0]
        step = log_ratio(sigmas[i + 1]) - log_ratio(sigmas[i]) if sigmas[i + 1] > 0 else math.inf
        before = log_ratio(sigmas[i]) - log_ratio(sigmas[i - 1]) if i else math.inf
        if math.isfinite(step) and math.isfinite(before):
            # D_i − D_{i−1} = (x_i − x_{i−1}) − σ_i d_i + σ_{i−1} d_{i−1}
            change = [(sigmas[i] - sigmas[i - 1]) * w for w in rows[i - 1]] + [-sigmas[i]]
            change[i - 1] += sigmas[i - 1]
            share = step / (2.0 * before) / sigmas[i]
            row = [w - share * c for w, c in zip(row, change)]
        rows.append(row)
    return Start(name, list(sigmas), rows)


def resampled(levels: Sequence[float], steps: int) -> list[float]:
    """`steps` + 1 levels of a longer grid, evenly in its index, between its first and its last."""
    last = len(levels) - 1
    return [_between(levels, i * last / steps) for i in range(steps)] + [levels[-1]]


def _between(levels: Sequence[float], place: float) -> float:
    i = min(int(place), len(levels) - 2)
    a, b, u = levels[i], levels[i + 1], place - int(place)
    return a + u * (b - a) if b <= 0 or a <= 0 else math.exp(math.log(a) + u * (math.log(b) - math.log(a)))


def karras(top: float, low: float, steps: int, rho: float, end: float) -> list[float]:
    """Levels from `top` towards `low` by Karras's rule, and the end."""
    a, b = top ** (1.0 / rho), low ** (1.0 / rho)
    return [(a + i / steps * (b - a)) ** rho for i in range(steps)] + [end]


def log_uniform(top: float, low: float, steps: int, end: float) -> list[float]:
    """Levels evenly in ln σ."""
    return [top * (low / top) ** (i / steps) for i in range(steps)] + [end]


def shifted(top: float, steps: int, shift: float, end: float) -> list[float]:
    """A flow's uniform levels with its time shifted, from `top`."""
    line = [top * (1.0 - i / steps) for i in range(steps)]
    return [shift * u / (1.0 + (shift - 1.0) * u) if top >= 1.0 else u for u in line] + [end]
