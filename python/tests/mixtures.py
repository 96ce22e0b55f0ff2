"""Models with a closed form in torch and numpy, every sample with a level of its own: the built-in `mixture` once more."""

import pathlib
import sys

import numpy as np
import torch
from reference import Mixture

import dyweight


def paths():
    """Where other processes find what this one has found: the package that is tested before any other of its name."""
    return [str(pathlib.Path(dyweight.__file__).parents[1]), *sys.path]


def spiral(flow=False):
    """D, or v for a flow, of the built-in mixture, differentiable in state and level."""
    known = Mixture.spiral(flow)
    means, stds, weights = (torch.as_tensor(v) for v in (known.means, known.stds, known.weights))

    def fn(x, sigma):
        flat, s = x.reshape(len(x), -1), sigma[:, None]
        alpha = 1.0 - s if flow else torch.ones_like(s)
        variances = alpha**2 * stds**2 + s**2
        gap = flat[:, None, :] - alpha[:, :, None] * means
        log = weights.log() - flat.shape[1] / 2 * variances.log() - (gap**2).sum(-1) / (2 * variances)
        r = torch.softmax(log, -1)
        shrink = alpha * stds**2 / variances
        data = (r * (1.0 - alpha * shrink)) @ means + (r * shrink).sum(-1, keepdim=True) * flat
        if not flow:
            return data.reshape(x.shape)
        noise = (r * (s / variances)).sum(-1, keepdim=True) * flat - alpha * ((r * (s / variances)) @ means)
        return (noise - data).reshape(x.shape)

    return fn


def model(flow=False, **options):
    """The built-in mixture as a model of the package."""
    kind, levels = ("velocity", (0.0, 1.0)) if flow else ("denoised", (0.002, 80.0))
    options = {"bounded": not flow, "dtype": torch.float64, "name": "mixture", **options}
    return dyweight.Model(spiral(flow), (2, 1, 1), kind, levels, **options)


def numpy_model(**options):
    """The same for numpy, its derivatives by torch's hand."""
    fn = spiral()

    def call(x, sigma):
        return fn(torch.as_tensor(x), torch.as_tensor(sigma)).numpy()

    def vjp(x, sigma, g):
        x, sigma = torch.as_tensor(x).requires_grad_(), torch.as_tensor(sigma).requires_grad_()
        return tuple(d.numpy() for d in torch.autograd.grad(fn(x, sigma), (x, sigma), torch.as_tensor(g)))

    return dyweight.Model(call, (2, 1, 1), "denoised", (0.002, 80.0), vjp=vjp, bounded=True, **options)


def unlike(model, prediction):
    """The data prediction of `model` as an ε or v prediction of scaled states, in torch."""

    def fn(x, sigma):
        s = sigma.reshape(-1, *[1] * (x.ndim - 1))
        root = (1 + s**2).sqrt()
        state = x * root
        data = model.fn(state, sigma)
        eps = (state - data) / s
        return eps if prediction == "eps" else eps / root - data * s / root

    return fn


SHORT = {"iters": 12, "batch": 8, "validation": 8, "teacher_nfe": 12, "progress": False}
__all__ = ["SHORT", "model", "np", "numpy_model", "spiral", "unlike"]
