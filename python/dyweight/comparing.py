"""Solvers compared on one model, at equal calls on the same noise."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _native
from .counts import seeds as whole_seeds
from .counts import whole
from .distributed import Comm
from .model import Model
from .progress import Bar
from .solver import Solver
from .training import _conditioned, _request

HANDCRAFTED = ("ddim", "dpmpp:2", "unipc", "ipndm")


class Comparison:
    """What a comparison found.

    `scores` is a list of dictionaries (solver, nfe, rmse, error, psnr, failed), `table` the same as text, `page` the
    report: one HTML file with charts, pictures and everything needed to repeat it.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self.scores: list[dict[str, Any]] = found["scores"]
        self.page = Path(found["report"])
        #: In a sentence: how much closer the best learned solver is than the best with fixed coefficients.
        self.headline: str | None = found["headline"]
        self._names: dict[str, str] = found["names"]

    def score(self, solver: str, nfe: int) -> dict[str, Any]:
        """One cell, by the name of its row or by what was asked for."""
        solver = self._names.get(solver, solver)
        for score in self.scores:
            if (score["solver"], score["nfe"]) == (solver, nfe):
                return score
        raise KeyError(f"{solver} at {nfe} calls")

    @property
    def solvers(self) -> list[str]:
        """Rows of the table."""
        return list(dict.fromkeys(score["solver"] for score in self.scores))

    @property
    def budgets(self) -> list[int]:
        """Columns of the table."""
        return sorted({score["nfe"] for score in self.scores})

    @property
    def table(self) -> str:
        """Distance to the teacher (root mean square) ± one standard error, as Markdown."""
        lines = [["solver", *(f"{n} calls" for n in self.budgets)], ["---"] * (1 + len(self.budgets))]
        lines += [[row, *(self._cell(row, n) for n in self.budgets)] for row in self.solvers]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def _cell(self, row: str, nfe: int) -> str:
        try:
            score = self.score(row, nfe)
        except KeyError:
            return "–"
        return "diverged" if score["rmse"] is None else f"{score['rmse']:.4g} ± {score['error']:.2g}"

    def __repr__(self) -> str:
        return f"{self.table}\n{self.page}"

    def _repr_markdown_(self) -> str:
        return f"{self.table}\n\n[{self.page.name}]({self.page})"


def compare(
    model: Model[Any],
    solvers: Sequence[str] = HANDCRAFTED,
    learned: Sequence[Solver | str | os.PathLike[str]] = (),
    nfe: Sequence[int] | int = (),
    *,
    seeds: str | range = "0-63",
    rng: str = "native",
    teacher: str = "ipndm",
    teacher_order: int | None = None,
    teacher_nfe: int | None = None,
    condition: int | None = None,
    guidance: float | None = None,
    search: bool = True,
    afs: bool | None = None,
    skip_impossible: bool = False,
    batch: int = 16,
    out: str | os.PathLike[str] = "comparison",
    row: str = "dyweight",
    progress: bool | None = None,
    comm: Comm | None = None,
    **schedule: Any,
) -> Comparison | None:
    """Compares solvers by their distance to a teacher on the same noise.

    >>> import torch, dyweight, tempfile
    >>> def denoiser(x, sigma):                                            # the exact one of two Gaussians
    ...     means, v = torch.tensor([[-0.5], [0.7]], dtype=x.dtype), 0.01 + sigma[:, None] ** 2
    ...     r = torch.softmax(-(x - means.T) ** 2 / (2 * v), -1)
    ...     return (0.01 * x + sigma[:, None] ** 2 * (r @ means)) / v
    >>> model = dyweight.Model(denoiser, (1,), "denoised", (0.01, 20), dtype=torch.float64)
    >>> found = dyweight.compare(model, ["ddim", "ipndm:3"], nfe=[4, 6], out=tempfile.mkdtemp(), progress=False)
    >>> found.solvers, found.budgets, found.page.name
    (['Euler (DDIM)', 'iPNDM-3'], [4, 6], 'report.html')
    >>> found.score("ipndm:3", 6)["rmse"] < found.score("ddim", 6)["rmse"]
    True

    Arguments:
        solvers: handcrafted ones, `NAME[:ORDER][@SCHEDULE[:EXPONENT]][+afs|-afs]`. What is left open is the best of all
            settings, chosen on other seeds; `search=False` takes each method's defaults.
        learned: solvers, solver files, or `preset:NAME`; those given as `Solver` make up the row called `row`, and a
            second one of as many calls the row `row-2`.
        nfe: network calls; those of the learned solvers if left out.
        seeds: samples to judge by, one for each seed: a range, or text as in "0-63,100".
        teacher, teacher_order, teacher_nfe: whose results are the truth.
        out: directory for records, pictures and the report. What is on record there is not computed again.
        schedule: the grid of handcrafted solvers.

    Returns None at every process but the first.
    """
    model = _conditioned(model, None)
    _ = model.fingerprint
    first = comm is None or comm.rank == 0
    bar = Bar(progress is not False and first, "comparing")

    def watch(*told: Any) -> None:
        if len(told) == 1:
            bar.advance(told[0])
        else:
            what, steps, done, every = told
            bar.begin(f"[{min(done + 1, every)}/{every}] {what}", steps)

    request = {
        "solvers": list(solvers),
        "nfe": [whole("nfe", n) for n in ([nfe] if isinstance(nfe, int) else nfe)],
        "schedule": _request(None, None, schedule)["options"],
        "search": search,
        "afs": afs,
        "skip_impossible": skip_impossible,
        "condition": condition,
        "guidance": guidance,
        "seeds": _seeds(seeds),
        "rng": rng,
        "teacher": teacher,
        "teacher_order": teacher_order,
        "teacher_nfe": teacher_nfe,
        "batch": whole("batch", batch),
        "out": os.fspath(out),
        "command": f"dyweight.compare({model.name}, {list(solvers)}, …, nfe={nfe}, seeds={_seeds(seeds)!r})",
        "times": True,
    }
    with tempfile.TemporaryDirectory() as folder, bar:
        request["files"] = [_file(source, folder, row) for source in learned]
        found = _native.compare(model, json.dumps(request), comm, watch)
    return None if found is None else Comparison(json.loads(found))


def _file(source: Solver | str | os.PathLike[str], folder: str, row: str) -> str:
    """The file of a learned solver; the row it stands in is its name without the number of calls."""
    if not isinstance(source, Solver):
        return os.fspath(source)
    number, path = 1, os.path.join(folder, f"{row}-nfe{source.nfe}.json")
    while os.path.exists(path):
        number += 1
        path = os.path.join(folder, f"{row}-{number}-nfe{source.nfe}.json")
    source.save(path)
    return path


def _seeds(seeds: str | range) -> str:
    if isinstance(seeds, str):
        return seeds
    numbers = whole_seeds(seeds)
    if not numbers:
        raise ValueError("seeds are none: at least one is needed")
    plain = isinstance(seeds, range) and seeds.step == 1 and len(numbers) > 1
    return f"{numbers[0]}-{numbers[-1]}" if plain else ",".join(map(str, numbers))
