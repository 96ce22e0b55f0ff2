"""A learned solver against the best handcrafted setting on a model that somebody else trained.

    python python/examples/real/run.py galaxies64 --calls 3,5,8
    python python/examples/real/run.py digits --folder flow-matching --calls 5 --train pairs=64

Prints a table: root mean squared distance to the teacher's result on noise that nothing was learned or chosen on. Its
first error is one standard error over samples, its second over trainings. --out keeps solvers, numbers and pictures, and
a run that was interrupted goes on there. Where each model comes from is said at the head of its file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import crystals
import digits
import faces
import galaxies
import load_curves
import numpy as np
import searching
from measuring import Distance, Gain, Truth, sampled, squares, truth
from pictures import draw
from subject import Subject

import dyweight

MODELS: dict[str, Callable[[argparse.Namespace], Subject]] = {
    "galaxies32": partial(galaxies.load, size=32),
    "galaxies64": partial(galaxies.load, size=64),
    "load-curves": load_curves.load,
    "crystals": crystals.load,
    "digits": digits.load,
    "faces64": faces.load,
}
FRESH, CHOSEN_ON = 5_000_000, 1_000_000


class Counted:
    """A model's function, and how many samples it was asked about."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.calls = fn, 0

    def __call__(self, x: Any, *rest: Any) -> Any:
        self.calls += len(x)
        return self.fn(x, *rest)


@dataclasses.dataclass
class Learned:
    """What a training has cost, and the squared distances of its samples."""

    solver: dyweight.Solver
    squares: np.ndarray
    calls: int
    minutes: float


class Run:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.subject = args, MODELS[args.model](args)
        self.counted = self.subject.model.fn = Counted(self.subject.model.fn)
        self.options = {**self.subject.training(), **dict(read(text) for text in args.train)}
        args.fresh, args.search_pairs = args.fresh or self.subject.fresh, args.search_pairs or self.subject.search_pairs
        args.out.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def kept(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """An array of this run, computed once."""
        path = self.args.out / f"{name}.npy"
        if not path.exists():
            np.save(path, make())
        return np.load(path)

    def truth(self, first: int, count: int) -> Truth:
        seeds = range(first, first + count)
        name = f"teacher-{self.subject.teacher_nfe}-{first}-{count}"
        ends = self.kept(name, lambda: truth(self.subject, seeds).ends)
        conditions = [seed % self.subject.conditions for seed in seeds] if self.subject.conditions else None
        return Truth(dyweight.noise(seeds, self.subject.model.shape), conditions, ends)

    def rival(self, calls: int) -> tuple[searching.Setting, int]:
        """The searched setting and how many there were; kept beside everything else."""
        path = self.args.out / f"handcrafted-nfe{calls}.json"
        if not path.exists():
            pairs = self.truth(CHOSEN_ON, self.args.search_pairs)
            setting, tried = searching.best(self.subject, calls, pairs, self.say)
            path.write_text(json.dumps({"setting": dataclasses.asdict(setting), "tried": tried}))
        found = json.loads(path.read_text())
        return searching.Setting(**found["setting"]), found["tried"]

    def learned(self, calls: int, training: int, fresh: Truth) -> Learned:
        path = self.args.out / f"learned-nfe{calls}-{training}.json"
        cost = path.with_suffix(".cost.json")
        if not cost.exists():
            before, begun = self.counted.calls, time.perf_counter()
            dyweight.train(
                self.subject.model, calls, out=path, seed=training, overwrite=True, progress=False, **self.options
            )
            spent = {"calls": self.counted.calls - before, "minutes": (time.perf_counter() - begun) / 60}
            cost.write_text(json.dumps(spent))
        solver, spent = dyweight.Solver.load(path), json.loads(cost.read_text())
        ends = self.kept(f"ends-nfe{calls}-{training}", lambda: sampled(self.subject, solver, fresh))
        return Learned(solver, squares(ends, fresh), spent["calls"], spent["minutes"])

    def row(self, calls: int, fresh: Truth) -> None:
        setting, tried = self.rival(calls)
        rival_ends = self.kept(f"ends-nfe{calls}-handcrafted", lambda: setting.ends(self.subject, calls, fresh))
        rival = squares(rival_ends, fresh)
        trainings = [self.learned(calls, training, fresh) for training in range(self.args.trainings)]
        ends = self.kept(f"ends-nfe{calls}-0", lambda: sampled(self.subject, trainings[0].solver, fresh))
        draw(self.subject, fresh.ends, rival_ends, ends, self.args.out / f"nfe{calls}.png")
        own = [training.squares for training in trainings]
        records = [training.solver.record for training in trainings]
        row = {
            "calls": calls,
            "handcrafted": str(setting),
            "settings": tried,
            "handcrafted_distance": Distance.of([rival]),
            "learned_distance": Distance.of(own),
            "gain": Gain.of(own, rival),
            "starts": [start(record) for record in records],
            "training_calls": float(np.mean([training.calls for training in trainings])),
            "minutes": float(np.mean([training.minutes for training in trainings])),
        }
        self.say(line(row))
        facts = {"model": self.args.model, "options": self.options, "arguments": vars(self.args), **row}
        (self.args.out / f"nfe{calls}.json").write_text(json.dumps(facts, default=plain, indent=1))

    def table(self) -> None:
        fresh = self.truth(FRESH, self.args.fresh)
        self.say(
            f"{self.args.model}: teacher {self.subject.teacher} with {self.subject.teacher_nfe} calls,"
            f" {self.args.fresh} fresh seeds, {self.args.trainings} trainings,"
            f" handcrafted settings searched on {self.args.search_pairs} pairs"
        )
        for text in HEAD:
            self.say(text)
        for calls in self.args.calls:
            self.row(calls, fresh)


def start(record: dict[str, Any]) -> str:
    """Where a training began."""
    schedule = record["schedule"]
    number = schedule.get("rho", schedule.get("shift"))
    grid = schedule["kind"] + ("" if number is None else f" {number:g}")
    return f"{grid}, order {record['body'].get('order')}" + (", AFS" if record["afs"] else "")


HEAD = (
    "| calls | best handcrafted of N | its distance | learned | learned against it | calls of a training | minutes |",
    "|---|---|---|---|---|---|---|",
)


def line(row: dict[str, Any]) -> str:
    cells = [
        row["calls"], f"{row['handcrafted']} ({row['settings']})", row["handcrafted_distance"],
        f"**{row['learned_distance']}**", row["gain"], f"{row['training_calls']:,.0f}", f"{row['minutes']:.1f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else str(value)


def read(text: str) -> tuple[str, Any]:
    """`iters=75` as an option of training."""
    name, equals, value = text.partition("=")
    if not equals:
        raise SystemExit(f"error: --train {text}: write NAME=VALUE, as in --train pairs=64")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--folder", type=Path, help="where the model lies, for those that no package brings")
    parser.add_argument("--calls", default="3,5,8", help="network calls of a sample, one solver for each [3,5,8]")
    parser.add_argument("--trainings", type=int, default=3, help="trainings, each on pairs of its own [3]")
    parser.add_argument(
        "--fresh", type=int, help="samples to judge by, on seeds from 5000000 [200, fewer of slow models]"
    )
    parser.add_argument(
        "--search-pairs", type=int, help="pairs the handcrafted settings are chosen on [32, fewer of slow models]"
    )
    parser.add_argument(
        "--train", action="append", default=[], metavar="NAME=VALUE", help="an option of dyweight.train"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch [2]")
    parser.add_argument("--out", type=Path, help="folder for what is found [real-MODEL]")
    args = parser.parse_args()
    args.calls = [int(text) for text in args.calls.split(",")]
    args.out = args.out or Path(f"real-{args.model}")
    return args


if __name__ == "__main__":
    import torch

    args = arguments()
    torch.set_num_threads(args.threads)
    Run(args).table()
