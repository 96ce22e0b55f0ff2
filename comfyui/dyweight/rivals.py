"""ComfyUI's own samplers: what a solver is compared with, and where learning may begin.

A multistep sampler is linear in the state and in what the network says. Given unit vectors for these, it says its own
coefficients: `as_weights` runs it that way. So learning begins no farther away than the best of them.
"""

import itertools
import math

import comfy.samplers
import torch

from .starts import Start

NAMES = ("dpmpp_2m", "uni_pc")
SCHEDULERS = ("simple", "normal", "sgm_uniform", "karras", "exponential", "beta", "kl_optimal")


def fall(sigmas):
    """Whether these are the levels of a run."""
    return len(sigmas) > 1 and all(a > b for a, b in itertools.pairwise(sigmas))


def sigmas_of(name, levels, steps):
    """A sampler's sigmas as ComfyUI's own KSampler gives it; `levels(steps)` are a scheduler's."""
    if name in comfy.samplers.KSampler.DISCARD_PENULTIMATE_SIGMA_SAMPLERS:
        longer = levels(steps + 1)
        return [*longer[:-2], longer[-1]]
    return levels(steps)


@torch.no_grad()
def as_weights(name, title, sigmas):
    """A sampler as weights of slopes; None where it is no such solver."""
    # In f32: some samplers hold numbers of their own in it.
    steps, states = len(sigmas) - 1, []
    x = torch.zeros(1, steps + 1, 1, 1)
    x[0, 0] = 1.0

    def network(state, sigma, **_):
        slope = torch.zeros_like(x)
        slope[0, min(len(states), steps - 1) + 1] = 1.0
        states.append(state.flatten().tolist())
        return state - float(sigma.flatten()[0]) * slope

    function = comfy.samplers.sampler_object(name).sampler_function
    try:
        end = function(network, x, torch.tensor(sigmas), extra_args={}, callback=None, disable=True)
    except (ValueError, TypeError, RuntimeError, AttributeError, IndexError, AssertionError):
        return None
    states.append(end.flatten().tolist())
    # One call a step, and the state itself is kept.
    if len(states) != steps + 1 or not all(abs(s[0] - 1.0) < 1e-3 and all(map(math.isfinite, s)) for s in states):
        return None
    changes = zip(itertools.pairwise(states), itertools.pairwise(sigmas))
    rows = [
        [(after[j + 1] - before[j + 1]) / (b - a) for j in range(i + 1)]
        for i, ((before, after), (a, b)) in enumerate(changes)
    ]
    return Start(title, list(sigmas), rows)
