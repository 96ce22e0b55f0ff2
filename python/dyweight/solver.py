"""Learned solvers: read, looked at, saved."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from .solver_file import SolverFile, SolverFileError

try:
    from . import _native
except ImportError:  # reading and sampling need no compiled part
    _native = None  # type: ignore[assignment]


class Solver:
    """A learned solver, as a solver file holds it (docs/solver-file.md).

    >>> import dyweight
    >>> solver = dyweight.Solver.preset("cifar10-nfe3")
    >>> solver
    Solver(cifar10, dyweight, 3 calls, 4 steps, order 3, afs)
    >>> solver.weights.shape, solver.times.shape, solver.levels.shape
    ((4, 4), (5,), (4,))
    >>> print(solver.sigmas.round(3))
    [8.0000e+01 1.7528e+01 2.5150e+00 1.7000e-01 2.0000e-03]
    """

    def __init__(self, record: dict[str, Any] | str) -> None:
        """From the content of a solver file, checked; what is derived in it is derived anew."""
        text = record if isinstance(record, str) else json.dumps(record)
        if _native is None:
            text, facts = _without_native(text)
        else:
            try:
                text = _native.solver_checked(text)
            except ValueError as error:
                raise SolverFileError(str(error)) from error
            facts = json.loads(_native.solver_facts(text))
        self._text = text
        self.record: dict[str, Any] = json.loads(text)
        #: Nominal noise levels σ_0 … σ_S.
        self.sigmas = np.array(facts["sigmas"])
        #: What is unlike solvers known to be good.
        self.warnings: list[str] = facts["warnings"]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Solver:
        """Reads a solver file.

        >>> import dyweight, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "solver.json"
        >>> dyweight.Solver.preset("cifar10-nfe3").save(path)
        >>> dyweight.Solver.load(path) == dyweight.Solver.preset("cifar10-nfe3")
        True
        """
        name = os.fspath(path)
        if _native is None:
            return cls(SolverFile.load(name).record)
        try:
            # A bare name would also be a preset's.
            return cls(_native.solver_of(name if "/" in name or os.sep in name else os.path.join(".", name)))
        except ValueError as error:
            raise error if isinstance(error, SolverFileError) else SolverFileError(str(error)) from error

    @classmethod
    def preset(cls, name: str) -> Solver:
        """Coefficients released with the paper; `dyweight.preset_names()` lists them."""
        from .presets import record

        return cls(record(name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a solver file, all or nothing."""
        _compiled().write(os.fspath(path), self._text.encode())

    def at(self, nfe: int, guidance: float | None = None) -> Solver:
        """The solver of one budget, and one strength of guidance, of one that serves a range of them (see `joined`)."""
        return Solver(_compiled().solver_at(self._text, nfe, guidance))

    @classmethod
    def joined(cls, solvers: Iterable[Solver]) -> Solver:
        """One solver for every budget from the fewest to the most calls of these, and every guidance between theirs, each trained by itself.

        >>> import dyweight
        >>> three, nine = (dyweight.Solver.preset(f"cifar10-nfe{nfe}") for nfe in (3, 9))
        >>> dyweight.Solver.joined([three, nine]).at(5).nfe
        5
        """
        return cls(_compiled().solver_joined([solver._text for solver in solvers]))

    @property
    def nfe(self) -> int:
        """Network calls of one sample."""
        return self.record["nfe"]

    @property
    def calls(self) -> int:
        """Network evaluations of one sample: under guidance each is two calls. What `num_inference_steps` must be."""
        return self.steps - int(self.record["afs"])

    @property
    def run_sigmas(self) -> list[float]:
        """Where the states of a run are, and its nominal end: the sigmas for samplers of k-diffusion."""
        return self.file.run_sigmas

    @functools.cached_property
    def file(self) -> SolverFile:
        """The solver as samplers in plain Python take it. Only solvers of the method "dyweight" have this form."""
        return SolverFile(self.record)

    @property
    def steps(self) -> int:
        """Steps of a run."""
        return self.record["steps"]

    @property
    def prediction(self) -> str:
        """What the model it is for predicts: "denoised" or "velocity"."""
        return self.record["prediction"]

    @property
    def training(self) -> dict[str, Any]:
        """How it was learned."""
        return self.record["training"]

    @property
    def method(self) -> str:
        """The learned method: "dyweight", or another of `dyweight list`."""
        return self.record["method"]

    @property
    def body(self) -> dict[str, Any]:
        """The method's own numbers and options."""
        return self.record["body"]

    @property
    def weights(self) -> np.ndarray:
        """Weights `[step, slope]` of a DyWeight solver: the column of a weight is the step its slope was made in."""
        if "weights" not in self.body:
            raise ValueError(f"a solver of the method {self.method} has no weights: its numbers are in body")
        square = np.zeros((self.steps, self.steps))
        for i, row in enumerate(self.body["weights"]):
            square[i, i + 1 - len(row) : i + 1] = row
        return square

    @property
    def time_scale(self) -> np.ndarray:
        """Factors of the levels told to the network, of the last steps; empty for none."""
        return np.array(self.body.get("time_scale", []), float)

    @property
    def times(self) -> np.ndarray:
        """Times T_0 … T_S at which states really are."""
        return np.array(self.record["realised_times"])

    @property
    def levels(self) -> np.ndarray:
        """Levels the network is told, call by call; NaN at an analytical first step."""
        return np.array([np.nan if level is None else level for level in self.record["network_levels"]])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Solver) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Solver, (self._text,)

    def __repr__(self) -> str:
        record = self.record
        name = [record["model"]["name"]] if record.get("model", {}).get("name") else []
        order = [f"order {self.body['order']}"] if "order" in self.body else []
        parts = [*name, self.method, f"{self.nfe} calls", f"{self.steps} steps", *order]
        return f"Solver({', '.join(parts + ['afs'] * record['afs'])})"

    def _repr_svg_(self) -> str | None:
        """Weights and scales as a picture, in a notebook."""
        return None if _native is None else _native.solver_svg(self._text)


def _compiled() -> Any:
    if _native is None:
        raise ImportError("this needs the compiled part of the package (dyweight._native), which is not installed here")
    return _native


def _without_native(text: str) -> tuple[str, dict[str, Any]]:
    """A checked record with what is derived in it, and the facts, by the reader in plain Python."""
    file = SolverFile(json.loads(text))
    derived = {"realised_times": file.times, "network_levels": file.levels}
    return json.dumps({**file.record, **derived}), {"sigmas": file.sigmas, "warnings": []}
