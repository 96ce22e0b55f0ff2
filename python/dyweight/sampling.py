"""Samples of a model by a learned or handcrafted solver, and the noise they start from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native
from .counts import seeds as whole_seeds
from .counts import whole
from .model import Array, Model, _samples, _three
from .solver import Solver
from .training import _conditioned, _plain, _request


class State(NamedTuple):
    """A state of a run, shown as soon as it is reached."""

    #: 0 is the start.
    index: int  # type: ignore[assignment]  # tuples have a method of that name, which nobody needs here
    #: Nominal noise level.
    sigma: float
    #: The batch.
    x: Any
    #: Network calls made so far.
    calls: int
    #: Number of the batch's first sample.
    first: int


def noise(seeds: Sequence[int] | range, shape: Sequence[int], rng: str = "native") -> np.ndarray:
    """Unit noise `[n, *shape]`, one stream for each seed: what the command draws for the same seeds and shape.

    `rng="torch"` is `torch.randn` on the CPU under `torch.manual_seed(seed)`.

    >>> import dyweight
    >>> dyweight.noise([0, 1], (2, 2)).shape
    (2, 2, 2)
    >>> bool((dyweight.noise([1], (2, 2))[0] == dyweight.noise([0, 1], (2, 2))[1]).all())
    True
    """
    numbers = _native.noise(whole_seeds(seeds), _three(tuple(shape)), rng)
    return np.frombuffer(numbers).reshape(-1, *shape)


def sample(
    model: Model[Array],
    solver: Solver | str,
    noise: Array | np.ndarray | None = None,
    *,
    seeds: Sequence[int] | range | None = None,
    rng: str = "native",
    conditions: Sequence[int | None] | None = None,
    guidance: float | None = None,
    callback: Callable[[State], Any] | None = None,
    batch: int | None = None,
    nfe: int | None = None,
    steps: int | None = None,
    afs: bool = False,
    denoise_to_zero: bool = False,
    **schedule: float | str | Sequence[float] | None,
) -> Array:
    """Samples from unit noise, as tensors of the model's kind.

    >>> import torch, dyweight
    >>> model = dyweight.Model(
    ...     lambda x, sigma: x / (1 + sigma**2)[:, None], (2,), "denoised", (0.002, 80), dtype=torch.float64
    ... )
    >>> seen = []
    >>> x = dyweight.sample(model, dyweight.Solver.preset("cifar10-nfe5"), seeds=range(4), callback=seen.append)
    >>> x.shape, len(seen), seen[-1].calls
    (torch.Size([4, 2]), 7, 5)
    >>> x = dyweight.sample(model, "ipndm:3", seeds=range(4), nfe=8)

    Arguments:
        solver: a learned solver, or a handcrafted one as `dyweight compare` writes it (`ipndm:3`, `dpmpp:2@logsnr`),
            with `nfe` network calls or `steps` intervals.
        noise: unit noise `[n, *shape]`; or `seeds`, each of which stands for a sample.
        conditions: the number of each sample's condition, None for none.
        guidance: classifier-free guidance, by two evaluations.
        callback: sees every `State`. What it raises ends the run.
        batch: samples per call of the model; all if None.
        afs, denoise_to_zero: analytical first step and final denoising, of handcrafted solvers.
        schedule: options of the grid of handcrafted solvers: schedule, rho, sigma_min, sigma_max, sigmas, shift …
    """
    if batch is not None:
        batch = whole("batch", batch)
    model = _conditioned(model, None)
    given = _samples(noise, model.shape, "noise") if noise is not None else None
    if (given is None) == (seeds is None):
        raise TypeError("give either noise or seeds")
    if seeds is not None:
        numbers = _native.noise(whole_seeds(seeds), _three(model.shape), rng)
    else:
        numbers = bytearray(np.ascontiguousarray(given, np.float64).tobytes())
    request: dict[str, Any] = {"conditions": conditions, "guidance": guidance, "batch": batch}
    if isinstance(solver, Solver):
        if nfe not in (None, solver.nfe) or steps not in (None, solver.steps):
            raise ValueError(f"the solver makes {solver.nfe} calls in {solver.steps} steps: leave nfe and steps out")
        if schedule or afs or denoise_to_zero:
            raise TypeError("a learned solver keeps the grid it was learned on: leave the options of the grid out")
        request["file"] = solver._text
    else:
        request.update(term=solver, nfe=nfe, steps=steps, afs=afs, denoise_to_zero=denoise_to_zero)
        request["schedule"] = _request(None, None, {k: _plain(v) for k, v in schedule.items()})["options"]

    def watch(first: int, index: int, sigma: float, x: bytearray, calls: int) -> None:
        assert callback is not None, "nobody watches otherwise"
        callback(State(index, sigma, model._arrays.result(x, model.shape), calls, first))

    samples, _ = _native.sample(model, json.dumps(request), numbers, watch if callback else None)
    return model._arrays.result(samples, model.shape)
