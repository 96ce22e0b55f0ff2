"""Samples side by side: the teacher's, the best handcrafted solver's, the learned one's, of the same noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from subject import Subject

COLUMNS, GAP, LEFT = 10, 4, 96
LABELS = ("teacher", "handcrafted", "learned")
COLOURS = ((150, 150, 150), (213, 94, 0), (0, 114, 178))


def draw(subject: Subject, teacher: np.ndarray, handcrafted: np.ndarray, learned: np.ndarray, path: Path) -> None:
    import torch

    rows = [subject.show(torch.from_numpy(ends[:COLUMNS])) for ends in (teacher, handcrafted, learned)]
    picture = curves(rows) if subject.curves else images(rows)
    picture.save(path, optimize=True)


def images(rows: list[np.ndarray]) -> Image.Image:
    height, width = rows[0].shape[1:3]
    scale = max(1, round(96 / height))
    cell_h, cell_w = height * scale + GAP, width * scale + GAP
    sheet = Image.new("RGB", (LEFT + COLUMNS * cell_w, len(rows) * cell_h), "white")
    pen = ImageDraw.Draw(sheet)
    for r, (label, row) in enumerate(zip(LABELS, rows)):
        pen.text((4, r * cell_h + cell_h // 2 - 6), label, fill="black")
        for c, values in enumerate(row):
            tile = Image.fromarray(np.uint8(np.round(255 * values))).convert("RGB")
            sheet.paste(tile.resize((width * scale, height * scale), Image.NEAREST), (LEFT + c * cell_w, r * cell_h))
    return sheet


def curves(rows: list[np.ndarray], size: tuple[int, int] = (180, 140), scale: int = 2) -> Image.Image:
    """The three solvers' curves of a noise in one frame; drawn twice as large and made smaller, for smooth lines."""
    width, height = size[0] * scale, size[1] * scale
    count = COLUMNS // 2
    low, high = min(row.min() for row in rows), max(row.max() for row in rows)
    sheet = Image.new("RGB", (count * width, 2 * height + 24 * scale), "white")
    pen = ImageDraw.Draw(sheet)
    for index in range(2 * count):
        left, top = (index % count) * width, (index // count) * height
        pen.rectangle((left + 4, top + 4, left + width - 4, top + height - 4), outline=(220, 220, 220))
        for row, colour in zip(rows, COLOURS):
            x = left + 8 + np.arange(row.shape[1]) / (row.shape[1] - 1) * (width - 16)
            y = top + height - 12 - (row[index] - low) / (high - low) * (height - 24)
            pen.line(list(zip(x.tolist(), y.tolist())), fill=colour, width=2 * scale if colour == COLOURS[0] else scale)
    for index, (label, colour) in enumerate(zip(LABELS, COLOURS)):
        pen.text((8 + index * 90 * scale, 2 * height + 4 * scale), label, fill=colour, font_size=14 * scale)
    return sheet.resize((sheet.width // scale, sheet.height // scale), Image.LANCZOS)
