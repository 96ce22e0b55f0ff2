"""Drawn faces, 64x64: the U-Net of github.com/wangjia184/diffusion_model (MIT), published as a TensorFlow.js graph.

    git clone https://github.com/wangjia184/diffusion_model

and --folder diffusion_model/docs/64x64_cosin_300. Noise prediction, cosine schedule, 300 timesteps, 63 million weights
in eight bits. Layers are numbered in the order they were made in, and so are the modules here: that is how each finds
its weights.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from subject import Subject, required_folder
from torch import nn

import dyweight

WIDTHS, ATTENTION, DEPTH, TIME, STEPS = (64, 128, 256, 512), (False, False, True, True), 2, 256, 300


def normalised(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(8, channels, 1e-3)


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        self.time = nn.Linear(TIME, outputs)
        self.norm1, self.conv1 = normalised(inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = normalised(outputs), nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class Attention(nn.Module):
    """One head over all pixels. The residual branch starts behind the normalisation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = normalised(channels)
        self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        pixels = h.flatten(2).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(self.query(pixels), self.key(pixels), self.value(pixels))
        return h + self.out(mixed).transpose(1, 2).reshape(h.shape)


class Unit(nn.Module):
    def __init__(self, inputs: int, outputs: int, attention: bool) -> None:
        super().__init__()
        self.residual = Residual(inputs, outputs)
        self.attention = Attention(outputs) if attention else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.attention(self.residual(x, time))


class Down(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Up(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, WIDTHS[0], 3, padding=1)
        self.time1, self.time2 = nn.Linear(TIME, TIME), nn.Linear(TIME, TIME)
        self.down, kept = nn.ModuleList(), [WIDTHS[0]]
        for level, width in enumerate(WIDTHS):
            for _ in range(DEPTH):
                self.down.append(Unit(kept[-1], width, ATTENTION[level]))
                kept.append(width)
            if level < len(WIDTHS) - 1:
                self.down.append(Down(width))
                kept.append(width)
        channels = WIDTHS[-1]
        self.middle1, self.middle2 = Unit(channels, channels, True), Unit(channels, channels, False)
        self.up = nn.ModuleList()
        for level in reversed(range(len(WIDTHS))):
            for _ in range(DEPTH + 1):
                self.up.append(Unit(channels + kept.pop(), WIDTHS[level], ATTENTION[level]))
                channels = WIDTHS[level]
            if level:
                self.up.append(Up(channels))
        self.norm, self.last = normalised(channels), nn.Conv2d(channels, 3, 3, padding=1)
        frequencies = torch.exp(torch.arange(TIME // 2) * (-math.log(10000) / (TIME // 2 - 1)))
        self.register_buffer("frequencies", frequencies)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * self.frequencies
        time = F.silu(self.time2(F.silu(self.time1(torch.cat([angles.sin(), angles.cos()], 1)))))
        x = self.first(x)
        kept = [x]
        for part in self.down:
            x = part(x, time)
            kept.append(x)
        x = self.middle2(self.middle1(x, time), time)
        for part in self.up:
            x = part(x) if isinstance(part, Up) else part(torch.cat([x, kept.pop()], 1), time)
        return self.last(F.silu(self.norm(x)))


KINDS = {nn.Conv2d: "conv2d", nn.Linear: "dense", nn.GroupNorm: "group_normalization"}
# How the graph's operations name what PyTorch calls weight and bias.
WEIGHT, BIAS = ("Conv2D", "MatMul", "Tensordot", "Reshape_1"), ("BiasAdd", "Reshape_2")


def numbered(folder: Path) -> dict[str, list[dict[str, torch.Tensor]]]:
    """Weights and biases of the layers of each kind, in the order of their numbers."""
    manifest = json.loads((folder / "model.json").read_text())["weightsManifest"]
    found: dict[str, dict[int, dict[str, torch.Tensor]]] = {kind: {} for kind in KINDS.values()}
    for group in manifest:
        data = b"".join((folder / path).read_bytes() for path in group["paths"])
        at = 0
        for entry in group["weights"]:
            count, lattice = math.prod(entry["shape"]), entry.get("quantization")
            bytes_each = 1 if lattice else 4
            raw = data[at : at + count * bytes_each]
            at += len(raw)
            place = re.search(r"/(conv2d|dense|group_normalization)_?(\d*)/(\w+)/.*ReadVariableOp$", entry["name"])
            if place is None:
                continue
            kind, number, operation = place[1], int(place[2] or 0), place[3]
            values = np.frombuffer(raw, np.uint8) * lattice["scale"] + lattice["min"]
            tensor = torch.from_numpy(values.astype(np.float32).reshape(entry["shape"]))
            part = "weight" if operation in WEIGHT else "bias" if operation in BIAS else operation
            found[kind].setdefault(number, {})[part] = tensor
    return {kind: [layers[number] for number in sorted(layers)] for kind, layers in found.items()}


def fill(net: UNet, layers: dict[str, list[dict[str, torch.Tensor]]]) -> UNet:
    for kind, name in KINDS.items():
        modules = [module for module in net.modules() if type(module) is kind]
        if len(modules) != len(layers[name]):
            raise SystemExit(
                f"error: {len(layers[name])} layers '{name}' in the graph, where the network has {len(modules)}"
            )
        for module, own in zip(modules, layers[name]):
            order = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[own["weight"].ndim]
            module.weight.data.copy_(own["weight"].permute(order))
            module.bias.data.copy_(own["bias"])
    return net.eval().requires_grad_(False)


def load(args: argparse.Namespace) -> Subject:
    folder = required_folder(
        args, "docs/64x64_cosin_300 of a checkout of github.com/wangjia184/diffusion_model", "model.json"
    )
    net = fill(UNet(), numbered(folder))

    def kept(t: float) -> float:
        return math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2

    betas = [min(1 - kept((i + 1) / STEPS) / kept(i / STEPS), 0.999) for i in range(STEPS)]
    alphas = np.cumprod(1 - np.array(betas))
    sigmas = np.sqrt((1 - alphas) / alphas)
    # Above level 25 the network's error is larger than the spread of the data.
    model = dyweight.Model(net, (3, 64, 64), "eps", (0.0125, 20.0), sigmas.tolist(), name="faces64")
    return Subject(model, show, teacher_nfe=30, batch=4, fresh=64, search_pairs=8)


def show(samples: torch.Tensor) -> np.ndarray:
    return ((samples.permute(0, 2, 3, 1) + 1) / 2).clamp(0, 1).numpy()
