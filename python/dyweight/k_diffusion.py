"""A sampler of the k-diffusion kind that samples with a learned solver (DyWeight, CVPR 2026, Algorithm 2).

    x = torch.randn(shape) * solver.sigmas[0]
    x = sample_dyweight(model, x, solver.run_sigmas, solver=solver)

`model(x, sigma)` is a denoiser D, as k-diffusion's wrappers and ComfyUI make them. For flows, where x = (1−σ)x₀ + σn,
that is x − σv, and the slope is (x − D)/level.
"""

import math

import torch

from .solver_file import GUARD

try:
    from tqdm.auto import trange
except ImportError:  # a progress bar is nice, not needed

    def trange(count, disable=None):
        return range(count)


@torch.no_grad()
def sample_dyweight(model, x, sigmas=None, extra_args=None, callback=None, disable=None, *, solver, history=None):
    """Samples from `x`, a state at level `sigmas[0]`.

    `solver` is a `Solver`. `sigmas` are its `run_sigmas`, or a part of them to start or end in the middle; None is
    the whole run. An analytical first step calls no model. State and slopes are kept in f32 at least. With the same
    `History` for all parts of a run it takes the slopes along from part to part.
    """
    solver = getattr(solver, "file", solver)
    first, steps = (0, solver.steps) if sigmas is None else find_run(solver, sigmas)
    arguments = {} if extra_args is None else extra_args
    dtype, state = x.dtype, x.to(torch.promote_types(x.dtype, torch.float32))
    ones, slopes = x.new_ones([x.shape[0]]), [] if history is None else history.of(solver, first, state)
    for k in trange(steps, disable=disable):
        i = first + k
        time, level = solver.times[i], solver.levels[i]
        if level is None:
            slopes.append(state * solver.analytic_slope)
            denoised = state - time * slopes[-1]
        else:
            denoised = model(state.to(dtype), ones * level, **arguments).to(state.dtype)
            slopes.append((state - denoised) / (level if solver.prediction == "velocity" else time + GUARD))
        if callback is not None:
            told = torch.as_tensor(time if level is None else level, dtype=state.dtype, device=x.device)
            callback({"x": state, "i": k, "sigma": ones[0] * time, "sigma_hat": told, "denoised": denoised})
        row = solver.row(i, len(slopes))
        for weight, slope in zip(row, slopes[-len(row) :]):
            state = state + (solver.length(i) * weight) * slope
    if history is not None and 0 < first + steps < solver.steps:
        history.keep(solver, first + steps, state, slopes)
    return state.to(dtype)


class History:
    """Slopes of runs that ended in the middle, for the runs that go on from there: sigmas that were split, or two
    networks that share a run. What goes on is known by its state: what is noised anew has no history."""

    #: So many ends of parts are remembered.
    KEPT = 8
    #: A state is the same if it differs by no more than this share of its size: it has been scaled there and back.
    TOLERANCE = 2e-3

    def __init__(self):
        self._ends = []

    def of(self, solver, step, state):
        """Slopes of the run that stands at `state` before a step; none if there was no such run."""
        ends = [end for end in self._ends if end[:2] == (solver.record, step) and end[2].shape == state.shape]
        found = [(float((end[2] - state.to(end[2])).norm() / state.norm()), -i) for i, end in enumerate(ends)]
        apart, newest = min(found, default=(math.inf, 0))
        return [slope.to(state) for slope in ends[-newest][3]] if apart <= self.TOLERANCE else []

    def keep(self, solver, step, state, slopes):
        """Remembers where a part of a run has ended."""
        longest = max(len(row) for row in solver.weights[step:]) - 1
        kept = [slope.cpu() for slope in slopes[len(slopes) - min(longest, len(slopes)) :]]
        self._ends = [*self._ends[1 - self.KEPT :], (solver.record, step, state.cpu(), kept)]


def find_run(solver, sigmas):
    """First step and number of steps of a run along `sigmas`, which must be the solver's."""
    given = [float(sigma) for sigma in sigmas]
    steps = len(given) - 1
    # The nominal grid has the same ends, so a whole run may name it as well.
    if steps == solver.steps and _agree(solver.sigmas, given, True):
        return 0, steps
    for first in range(solver.steps + 1 - steps if steps > 0 else 0):
        if _agree(solver.run_sigmas[first:][: steps + 1], given, first + steps == solver.steps):
            return first, steps
    raise ValueError(
        f"the sigmas {_short(given)} are not this solver's: take {_short(solver.run_sigmas)}, or a part of them"
    )


def _agree(ours, given, to_the_end):
    """Whether f32 levels are the same; other samplers end at 0, and the last level of a run is not used."""
    compared = len(ours) - int(to_the_end)
    return all(abs(a - b) <= 1e-4 * abs(a) for a, b in zip(ours[:compared], given))


def _short(values):
    return "[" + ", ".join(f"{v:.5g}" for v in values) + "]"
