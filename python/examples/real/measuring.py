"""Distances to the teacher's results on common noise, with errors over samples and trainings."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from subject import Subject

import dyweight

# Student's t at 97.5 % over the normal distribution's, for 1, 2, 3, ... degrees of freedom: few trainings say little
# of their spread.
WIDER = (6.48, 2.20, 1.62, 1.42, 1.31, 1.25, 1.21, 1.18, 1.15)


@dataclasses.dataclass
class Truth:
    """Noise, conditions, and what the teacher makes of them."""

    noise: np.ndarray
    conditions: list[int] | None
    ends: np.ndarray

    def first(self, count: int) -> Truth:
        return Truth(self.noise[:count], self.conditions and self.conditions[:count], self.ends[:count])


def sampled(subject: Subject, solver: Any, truth: Truth, **options: Any) -> np.ndarray:
    found = dyweight.sample(
        subject.model, solver, truth.noise, conditions=truth.conditions, batch=subject.batch, **options
    )
    return np.asarray(found, np.float64)


def truth(subject: Subject, seeds: range) -> Truth:
    noise = dyweight.noise(seeds, subject.model.shape)
    conditions = [seed % subject.conditions for seed in seeds] if subject.conditions else None
    start = Truth(noise, conditions, noise)
    flow = subject.model.prediction == "velocity"
    ends = sampled(subject, subject.teacher, start, nfe=subject.teacher_nfe, denoise_to_zero=not flow)
    return Truth(noise, conditions, ends)


def squares(ends: np.ndarray, truth: Truth) -> np.ndarray:
    """Mean squared distance of each sample."""
    return ((ends - truth.ends) ** 2).reshape(len(ends), -1).mean(1)


@dataclasses.dataclass
class Distance:
    """Root mean square over samples; the mean of several trainings."""

    value: float
    error: float
    training_error: float
    per_training: list[float]

    @staticmethod
    def of(trainings: list[np.ndarray]) -> Distance:
        """From the squared distances of each training's samples."""
        roots = [math.sqrt(own.mean()) for own in trainings]
        errors = [own.std(ddof=1) / math.sqrt(len(own)) / (2 * root) for own, root in zip(trainings, roots)]
        spread = float(np.std(roots, ddof=1)) / math.sqrt(len(roots)) if len(roots) > 1 else 0.0
        return Distance(float(np.mean(roots)), float(np.mean(errors)), spread, roots)

    def __str__(self) -> str:
        errors = [self.error, self.training_error] if len(self.per_training) > 1 else [self.error]
        told = [np.format_float_positional(e, 2, fractional=False, trim="-") for e in errors]
        return " ± ".join([f"{self.value:.4f}", *told])


@dataclasses.dataclass
class Gain:
    """How much closer the learned solver is, in per cent, with one standard error over samples and trainings."""

    percent: float
    error: float
    clear: bool

    @staticmethod
    def of(learned: list[np.ndarray], rival: np.ndarray) -> Gain:
        base = math.sqrt(rival.mean())
        ratios = [math.sqrt(own.mean()) / base for own in learned]
        ratio = float(np.mean(ratios))
        # What a sample does to ln(a/b) is half the difference of what it does to both mean squares. Samples are common.
        effects = [0.5 * (own / own.mean() - rival / rival.mean()) for own in learned]
        error = ratio * float(np.mean([e.std(ddof=1) / math.sqrt(len(e)) for e in effects]))
        count = len(ratios)
        spread = float(np.std(ratios, ddof=1)) / math.sqrt(count) if count > 1 else 0.0
        factor = WIDER[min(count - 2, len(WIDER) - 1)] if count > 1 else 1.0
        clear = abs(1 - ratio) > 2 * math.hypot(error, factor * spread)
        return Gain(100 * (ratio - 1), 100 * math.hypot(error, spread), clear)

    def __str__(self) -> str:
        return f"{self.percent:+.0f} ± {self.error:.0f} %" + ("" if self.clear else " (not clear)")
