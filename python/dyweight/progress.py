"""A bar of tqdm where that is installed, and nothing where it is not."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """A bar that is made when there is something to show."""

    def __init__(self, wanted: bool, label: str) -> None:
        self._tqdm = _tqdm() if wanted else None
        self._label, self._bar, self._best = label, None, None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def begin(self, label: str, total: int) -> None:
        """Another piece of work."""
        self.__exit__()
        self._label, self._bar = label, None
        self.move(total, 0, "")

    def move(self, total: int, done: int, note: str, validation: float | None = None) -> None:
        """So much is done."""
        if self._tqdm is None:
            return
        if self._bar is None:
            self._bar = self._tqdm(total=total, desc=self._label, leave=False, file=sys.stderr)
        if validation is not None:
            self._best = validation if self._best is None else min(self._best, validation)
        best = "" if self._best is None else f", best validation {self._best:.3e}"
        self._bar.set_postfix_str(note + best, refresh=False)
        self._bar.update(done - self._bar.n)

    def advance(self, steps: int) -> None:
        """So much more is done."""
        if self._bar is not None:
            self._bar.update(steps)


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
