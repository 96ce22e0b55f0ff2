"""Galaxies of the Hyper Suprime-Cam survey, 32x32 and 64x64: score networks of the package galaxygrad 0.2.1.

    pip install --no-deps galaxygrad==0.2.1

Sampson et al., arXiv 2401.07313. The package computes with JAX; only its files of weights are used here. It states no
licence: measure with it, do not redistribute it.

    y = e^(-t/2) x + sqrt(1 - e^(-t)) n,  t in (0, 10]       sigma = sqrt(e^t - 1)       score = -n/sqrt(1 - e^(-t))
    pixels = e^(0.1 x) - 1
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from subject import Subject, package_folder

import dyweight

PATCH, BLOCKS, END = 4, 4, 10.0


def arrays(path: Path) -> list[torch.Tensor]:
    """The arrays of a file, which holds them one after another in numpy's format."""
    found = []
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(0)
        while file.tell() < end:
            found.append(torch.from_numpy(np.asarray(np.load(file), np.float32)))
    return found


class Mixer(torch.nn.Module):
    """An MLP mixer over patches, whose second input channel is the time."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        super().__init__()
        for index, weight in enumerate(weights):
            self.register_buffer(f"w{index}", weight)
        take = iter(weights).__next__

        def several(count: int) -> list[torch.Tensor]:
            return [take() for _ in range(count)]

        self.into, self.out = several(2), several(2)
        self.blocks = [(several(4), several(4), several(2), several(2)) for _ in range(BLOCKS)]
        self.norm = several(2)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        time = (t / END).to(x.dtype)[:, None, None, None].expand_as(x)
        z = F.conv2d(torch.cat([x, time], 1), self.into[0], self.into[1].flatten(), stride=PATCH)
        size = z.shape[-2:]
        z = z.flatten(2)
        for tokens, channels, first, second in self.blocks:
            z = z + mlp(F.layer_norm(z, z.shape[1:], *first), tokens)
            z = z.transpose(1, 2)
            z = (z + mlp(F.layer_norm(z, z.shape[1:], *second), channels)).transpose(1, 2)
        z = F.layer_norm(z, z.shape[1:], *self.norm).unflatten(2, size)
        # Equinox's transposed convolution does not turn its kernel round; PyTorch's does.
        kernel = self.out[0].flip(-1, -2).transpose(0, 1)
        return F.conv_transpose2d(z, kernel, self.out[1].flatten(), stride=PATCH)


def mlp(z: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    return F.linear(F.relu(F.linear(z, *weights[:2])), *weights[2:])


def load(args: argparse.Namespace, size: int) -> Subject:
    folder = package_folder("galaxygrad", "pip install --no-deps galaxygrad==0.2.1")
    net = Mixer(arrays(folder / f"eqx_hsc_ScoreNet{size}.eqx")).eval()

    def noise(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return -torch.sqrt(-torch.expm1(-t)).to(x.dtype)[:, None, None, None] * net(x, t)

    model = dyweight.Model(
        noise, (1, size, size), "eps", (0.01, 100.0), lambda sigma: torch.log1p(sigma**2), name=f"galaxies{size}"
    )
    return Subject(model, show, batch=32)


def show(samples: torch.Tensor) -> np.ndarray:
    """Each galaxy on its own scale, the root of its light: arms are a hundred times fainter than cores."""
    light = torch.expm1(0.1 * samples[:, 0].double()).clamp(min=0)
    brightest = light.flatten(1).quantile(0.999, 1)[:, None, None].clamp(min=1e-9)
    return torch.sqrt((light / brightest).clamp(max=1)).numpy()
