"""Handwritten digits, 32x32, by flow matching with guidance: github.com/chookcurry/flow-matching (MIT).

    git clone https://github.com/chookcurry/flow-matching

and --folder flow-matching. The network has a class 10 for "no digit". Guidance 3 asks both in one evaluation; calls are
such evaluations.

    x_t = t x + (1-t) n,  u = x - n          here sigma = 1 - t,  velocity = n - x
"""

from __future__ import annotations

import argparse
import importlib
import sys

import torch
from subject import Subject, required_folder

import dyweight

NONE, GUIDANCE = 10, 3.0


def load(args: argparse.Namespace) -> Subject:
    folder = required_folder(args, "a checkout of github.com/chookcurry/flow-matching", "notebooks/mnist/unet.pt")
    sys.path.insert(0, str(folder / "src"))
    published = importlib.import_module("flow_matching.mnist.vector_field")
    net = published.MNISTUNet(channels=[16, 32, 64], num_residual_layers=2, t_embed_dim=40, y_embed_dim=8)
    net.load_state_dict(torch.load(folder / "notebooks/mnist/unet.pt", map_location="cpu", weights_only=True))
    net.eval().requires_grad_(False)

    def velocity(x: torch.Tensor, sigma: torch.Tensor, digits: torch.Tensor) -> torch.Tensor:
        none = torch.full_like(digits, NONE)
        both = torch.cat([torch.where(digits < 0, none, digits), none])
        times = (1 - sigma).to(x.dtype)[:, None, None, None]
        with_digit, without = net(torch.cat([x, x]), torch.cat([times, times]), both).chunk(2)
        return -(without + GUIDANCE * (with_digit - without))

    model = dyweight.Model(
        velocity, (1, 32, 32), "velocity", (0.0, 1.0), conditions=10, guided=True, bounded=True, name="digits"
    )
    # Near the data the velocity bends: sixty calls of iPNDM-4 are three times as far from the flow's own result as
    # eighty of iPNDM-3.
    return Subject(model, lambda x: ((x[:, 0] + 1) / 2).clamp(0, 1).numpy(), teacher="ipndm:3", teacher_nfe=80)
