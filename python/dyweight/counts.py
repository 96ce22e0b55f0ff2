"""Whole numbers as arguments: what is none is refused by the argument's name."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import SupportsIndex

#: Seeds are 64 bits.
SEEDS = 2**64


def whole(name: str, value: SupportsIndex, least: int = 1) -> int:
    """An int, or anything that is one, such as those of numpy; True is none."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or found < least:
        raise ValueError(f"{name} is {value!r}: a whole number of at least {least} is needed")
    return found


def seeds(values: Iterable[SupportsIndex]) -> list[int]:
    """Each a whole number from 0 to 2⁶⁴ − 1."""
    found = [whole("a seed", value, 0) for value in values]
    if found and max(found) >= SEEDS:
        raise ValueError(f"a seed is {max(found)}: at most {SEEDS - 1} is possible")
    return found
