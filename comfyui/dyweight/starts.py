"""Handcrafted solvers as weights of slopes: where learning begins. Written by python/copies.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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
