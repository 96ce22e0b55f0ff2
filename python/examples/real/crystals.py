"""Inorganic crystals as matrices of 136x3 numbers (elements, lattice, sites): a U-Net of DiffCrysGen 0.1.1 (MIT).

    pip download --no-deps --no-binary :all: diffcrysgen==0.1.1     # the source package: the wheel has no weights
    tar xzf diffcrysgen-0.1.1.tar.gz

and --folder diffcrysgen-0.1.1 (arXiv 2510.12329). Denoised prediction and noise levels are those of EDM. The network's
attention runs over the crystals of a batch, so that each depends on the others it is drawn with. Here SET crystals are
drawn together and are one sample.
"""

from __future__ import annotations

import argparse
import importlib
import sys

import numpy as np
import torch
from subject import Subject, required_folder

import dyweight

SET, CHANNELS, ROWS = 8, 3, 136


def load(args: argparse.Namespace) -> Subject:
    folder = required_folder(args, "the unpacked source package of diffcrysgen 0.1.1", "assets/saved-model/sdm.pt")
    sys.path.insert(0, str(folder))
    published = importlib.import_module("diffcrysgen.model")
    whole = published.Model(denoise_fn=published.UNet(in_c=CHANNELS, out_c=CHANNELS, time_emb_dim=256))
    whole.load_state_dict(torch.load(folder / "assets/saved-model/sdm.pt", map_location="cpu", weights_only=True))
    net = whole.denoise_fn_D.eval().requires_grad_(False)

    def denoised(x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        return torch.stack([net(crystals, level.expand(SET)) for crystals, level in zip(x, sigma)])

    model = dyweight.Model(denoised, (SET, CHANNELS, ROWS), "denoised", (0.002, 80.0), name="crystals")
    return Subject(model, show, batch=8, fresh=32, search_pairs=8)


def show(samples: torch.Tensor) -> np.ndarray:
    """The first crystal of each set: which element (column) stands where (row), white is none."""
    return ((1 - samples[:, 0].transpose(1, 2)) / 2).clamp(0, 1).numpy()
