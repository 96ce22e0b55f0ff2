"""What an example hands to the runner: a model, and how to look at its samples."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dyweight


@dataclasses.dataclass
class Subject:
    """A model somebody else trained.

    `show` turns samples into what `pictures.py` draws: images in 0..1, `[n, h, w]` or `[n, h, w, 3]`, or with `curves`
    lines `[n, points]`. `fresh` samples judge unless told otherwise, and `search_pairs` choose the handcrafted setting.
    `settings` are further options of `dyweight.train`.
    """

    model: dyweight.Model
    show: Callable[[Any], Any]
    curves: bool = False
    teacher: str = "ipndm:4"
    teacher_nfe: int = 60
    batch: int = 16
    fresh: int = 200
    search_pairs: int = 32
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def training(self) -> dict[str, Any]:
        """The teacher, and whatever else belongs to the model, as options of training."""
        name, _, order = self.teacher.partition(":")
        teacher = {"teacher": name, "teacher_order": int(order) if order else None, "teacher_nfe": self.teacher_nfe}
        return {**teacher, "micro_batch": self.batch, **self.settings}

    @property
    def conditions(self) -> int:
        """How many conditions the model has; 0 for none."""
        given = self.model.conditions
        return given if isinstance(given, int) else len(given)


def package_folder(name: str, install: str) -> Path:
    """Where a package lies; it is not imported, so that what it needs itself need not be there."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"error: the package {name} is not installed: {install}")
    return Path(next(iter(found.submodule_search_locations)))


def required_folder(args: argparse.Namespace, what: str, holds: str) -> Path:
    """The folder given on the command line, which must hold a file."""
    if args.folder is None:
        raise SystemExit(f"error: --folder is missing: {what}")
    if not (args.folder / holds).is_file():
        raise SystemExit(f"error: no {holds} in {args.folder}: {what}")
    return args.folder
