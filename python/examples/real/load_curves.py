"""Electric load of a day, hour by hour, given month, weekday and weather: a transformer of enerdatasynth 0.8.4 (MIT).

    pip install --no-deps enerdatasynth==0.8.4

Noise prediction, linear betas, 1000 timesteps; the package itself samples with all of them. Twelve months times seven
weekdays are 84 conditions here, each at temperatures that are usual for the month. Only the package's files are used:
what it imports is not needed.
"""

from __future__ import annotations

import argparse
import json
import math

import torch
from subject import Subject, package_folder
from torch import nn

import dyweight

RUN, HOURS, WIDTH, CONDITION, STEPS = "transformer_T1000_H64_L2", 24, 64, 23, 1000


class Transformer(nn.Module):
    """Hours are tokens; level and condition are added to each."""

    def __init__(self) -> None:
        super().__init__()
        self.cond = nn.Sequential(nn.Linear(CONDITION + WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.val, self.out = nn.Linear(1, WIDTH), nn.Linear(WIDTH, 1)
        self.pos = nn.Parameter(torch.zeros(1, HOURS, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)

    def forward(self, x: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * torch.exp(-math.log(10000) * torch.arange(WIDTH // 2) / (WIDTH // 2))
        given = self.cond(torch.cat([condition, angles.sin(), angles.cos()], 1))
        return self.out(self.enc(self.val(x[:, :, None]) + self.pos + given[:, None])).squeeze(2)


def condition(month: int, weekday: int, scales: dict) -> torch.Tensor:
    """One of 12 months, one of 7 weekdays, no holiday, scaled temperatures, a usual spread of the load."""
    row, warm = torch.zeros(CONDITION), -math.cos(2 * math.pi * month / 12)  # from January to July
    row[month], row[12 + weekday] = 1.0, 1.0
    for place, fahrenheit, mean, scale in zip(
        (20, 21), (64.6 + 23 * warm, 49.4 + 21 * warm), scales["mean_"], scales["scale_"]
    ):
        row[place] = (fahrenheit - mean) / scale
    return row


def load(args: argparse.Namespace) -> Subject:
    bundled = package_folder("enerdatasynth", "pip install --no-deps enerdatasynth==0.8.4") / "_bundled"
    scales = json.loads((bundled / "processed/pjm_load/metadata.json").read_text())
    net = Transformer()
    net.load_state_dict(
        torch.load(bundled / "checkpoints/pjm_load" / RUN / "best.pt", map_location="cpu", weights_only=True)
    )
    net.eval().requires_grad_(False)
    # The encoder's fast path for inference rounds differently from the one that has a gradient.
    torch.backends.mha.set_fastpath_enabled(False)

    def noise(x: torch.Tensor, t: torch.Tensor, rows: list[torch.Tensor | None]) -> torch.Tensor:
        return net(x, t, torch.stack([torch.zeros(CONDITION) if row is None else row for row in rows]))

    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64), 0)
    sigmas = ((1 - kept) / kept).sqrt().tolist()
    days = [condition(month, weekday, scales["temp_scaler"]) for month in range(12) for weekday in range(7)]
    # From level 157, where the table ends, one noise in 150 runs far away: the package cuts every state at 3. From
    # level 10, eighty times the spread of the data, none does.
    model = dyweight.Model(noise, (HOURS,), "eps", (sigmas[0], 10.0), sigmas, conditions=days, name="load-curves")
    low, high = (torch.tensor(scales["load_scaler"][name]) for name in ("data_min_", "data_max_"))
    return Subject(model, lambda x: ((low + x * (high - low)) / 1000).numpy(), curves=True, batch=64)
