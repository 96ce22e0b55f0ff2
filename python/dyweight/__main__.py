"""Learns solvers for a model that is named by its import path, and compares them with handcrafted ones.

    python -m dyweight MODULE:FUNCTION --nfe 4,5,6,8 --out DIR --iters 60 --batch 8 --teacher-nfe 20

FUNCTION makes the model: called without arguments it returns a `dyweight.Model`. With --shape, --prediction and
--sigma-range it is the model's function itself. All other options are those of `dyweight.train`.

Under torchrun the processes share the work; --micro-batch says how many samples go into one call.

What is finished is not done again: the same command goes on after an interruption. Solvers, teacher results and the
report with its table are in DIR.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .comparing import HANDCRAFTED, Comparison, compare
from .distributed import Comm
from .model import Model
from .training import estimate, train


def find(path: str) -> Callable[..., Any]:
    """What an import path stands for; modules beside the caller are found too."""
    module, _, name = path.partition(":")
    if not name:
        raise SystemExit(f"error: {path!r} is no import path: write module:function")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"error: {path}: {error}") from error
    return found


def run(
    model: Model[Any], nfe: list[int], out: Path, seeds: str, batch: int, solvers: list[str], options: dict[str, Any]
) -> Comparison | None:
    """Trains for every budget, then compares at all of them; None at every process but the first."""
    comm = Comm()

    def say(text: str) -> None:
        if comm.rank == 0:
            print(text, flush=True)

    out.mkdir(parents=True, exist_ok=True)
    teacher = {k: options[k] for k in ("teacher", "teacher_order", "teacher_nfe") if k in options}
    learned = []
    for calls in nfe:
        say(f"{calls} calls: {estimate(model, calls, **options)}")
        file = out / f"dyweight-nfe{calls}.json"
        solver = train(model, calls, out=file, cache=out / "cache", resume=True, comm=comm, **options)
        facts = solver.training
        if "ipndm_loss" in facts:
            ratio = facts["ipndm_loss"] / facts["validation_loss"]
            say(f"{calls} calls: validation loss {facts['validation_loss']:.3e}, {ratio:.2f} times below iPNDM's")
        learned.append(file)
    place = out / "comparison"
    return compare(model, solvers, learned, nfe, seeds=seeds, batch=batch, out=place, comm=comm, **teacher)


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m dyweight", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", metavar="MODULE:FUNCTION")
    parser.add_argument("--nfe", default="4,5,6,8", help="network calls, one solver for each [4,5,6,8]")
    parser.add_argument("--out", type=Path, default=Path("few-steps"))
    parser.add_argument("--seeds", default="1000-1031", help="samples to compare by [1000-1031]")
    parser.add_argument("--compare-batch", type=int, default=8, help="samples per call when comparing [8]")
    parser.add_argument("--solvers", default=",".join(HANDCRAFTED), help="handcrafted solvers to compare with")
    parser.add_argument("--shape", help="shape of a sample, if FUNCTION is the model's function itself")
    parser.add_argument("--prediction", default="eps")
    parser.add_argument("--sigma-range", default="0.002,80")
    known, rest = parser.parse_known_args(arguments)
    function = find(known.model)
    if known.shape:
        low, high = map(float, known.sigma_range.split(","))
        shape = [int(n) for n in known.shape.split(",")]
        model = Model(function, shape, known.prediction, (low, high))
    else:
        model = function()
    if not isinstance(model, Model):
        raise SystemExit(f"error: {known.model} returned {type(model).__name__}, not a dyweight.Model; or give --shape")
    budgets = [int(n) for n in known.nfe.split(",")]
    found = run(
        model, budgets, known.out, known.seeds, known.compare_batch, known.solvers.split(","), _options(parser, rest)
    )
    if found is not None:
        print(found.table, found.headline or "", found.page, sep="\n")


def _options(parser: argparse.ArgumentParser, words: list[str]) -> dict[str, Any]:
    """`--teacher-nfe 20 --plain` as options of training."""
    options: dict[str, Any] = {}
    while words:
        key, words = words[0], words[1:]
        if not key.startswith("--"):
            parser.error(f"{key!r} is not an option")
        name, equals, value = key[2:].partition("=")
        if not equals and words and not words[0].startswith("--"):
            value, words = words[0], words[1:]
        elif not equals:
            value = "true"
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.replace("-", "_")] = value
    return options


if __name__ == "__main__":
    main()
