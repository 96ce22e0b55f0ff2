"""A solver for a diffusers pipeline in one line: learned, judged and set.

    found = dyweight.few_steps(pipe, steps=5, prompts=["a red bicycle", …], guidance_scale=7.5)
    print(found)                                # what was gained, and what it cost

The pipeline is called as it is, with its own scheduler and many steps (the reference) and with few steps of candidate
coefficients, from the same noise. What is made small is the distance of where these runs end. No gradient is taken and no
argument of the pipeline's network is looked at, so everything that diffusers can run can be learned for, in the memory of
inference. The optimiser is the compiled one (Gauss–Newton on differences). Documentation: docs/diffusers.md.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, identity
from .black_box import BlackBox, Pair
from .learning import Lab, Setting, Solves, check, number_of_steps, rivals, rms, setting_of, starts, timer, with_analytical_step
from .process import name_and_config
from .scheduler import DyWeightScheduler
from .solver import Solver
from .solver_file import SolverFile
from .starts import Start

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline
    from typing_extensions import TypedDict, Unpack

    from .distributed import Comm

    class Options(TypedDict, total=False):
        """Of learning, but for what a pipeline is called with."""

        conditions: Sequence[dict[str, object]] | None
        out: str | os.PathLike[str] | None
        cache: str | os.PathLike[str] | None
        overwrite: bool
        pairs: int
        validation_pairs: int
        test_pairs: int
        iterations: int
        order: int
        reference_steps: int
        afs: bool | None
        noise_seed: int
        comm: Comm | None
        progress: bool | Callable[[str], object]


OURS = "learned"
#: A relative distance at which two pictures have little in common.
FAR = 0.5


@dataclass
class FewSteps:
    """What was learned for a pipeline."""

    #: The learned solver, whether it was set or not.
    solver: Solver
    #: True if it is now the pipeline's scheduler.
    is_set: bool
    #: Relative distances to the reference on conditions and noise that nothing was learned or chosen on, at equal evaluations.
    distances: dict[str, float]
    #: `num_inference_steps` to call the pipeline with.
    num_inference_steps: int
    #: The handcrafted solver that learning began at, and its distance on the training pairs.
    start: str
    #: Distances on the validation pairs, before and after.
    validation: tuple[float, float]
    #: How far ours is from the pipeline's own process.
    agreement: float
    evaluations: int
    seconds: float
    notes: list[str] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """How many times closer than the pipeline's own scheduler."""
        own = next(iter(self.distances.values()))
        return own / max(self.distances[OURS], 1e-30)

    @property
    def table(self) -> str:
        """Distances as Markdown, closest first."""
        rows = sorted(self.distances.items(), key=lambda item: item[1])
        return "\n".join(["| scheduler | distance |", "| --- | --- |", *(f"| {name} | {d:.4f} |" for name, d in rows)])

    def __str__(self) -> str:
        steps = self.solver.steps - int(self.solver.record["afs"])
        cost = f"{self.evaluations} evaluations, {_duration(self.seconds)}"
        if not self.is_set:
            others = {name: distance for name, distance in self.distances.items() if name != OURS}
            best = min(others, key=lambda name: others[name])
            head = f"{steps} steps: the pipeline keeps its scheduler; {best} is as close to the reference ({cost})"
        else:
            head = f"{steps} steps: {self.gain:.1f} times closer to the reference than the pipeline's own scheduler ({cost})"
        call = f"call the pipeline with num_inference_steps={self.num_inference_steps}"
        return "\n".join([head, self.table, *([call] if self.is_set else []), *self.notes])


def few_steps(
    pipe: DiffusionPipeline,
    steps: int | None = None,
    prompts: Sequence[str | dict[str, object]] | None = None,
    *,
    nfe: int | None = None,
    conditions: Sequence[dict[str, object]] | None = None,
    call: dict[str, object] | None = None,
    out: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    pairs: int = 16,
    validation_pairs: int = 8,
    test_pairs: int = 8,
    iterations: int = 4,
    order: int = 4,
    reference_steps: int = 50,
    afs: bool | None = None,
    noise_seed: int = 0,
    comm: Comm | None = None,
    progress: bool | Callable[[str], object] = True,
    **more: object,
) -> FewSteps:
    """Learns a solver of `steps` evaluations for a pipeline, compares it, and sets it as the scheduler if it is closer.

    Arguments:
        steps: network evaluations of one sample: with guidance each is two calls. `nfe` counts calls instead.
        prompts: what the solver is to be good at: a few are enough. Pipelines without a prompt: `conditions`, a list of
            what the pipeline is called with, `[{"image": …}, …]`; or neither.
        call, or any further argument: common arguments of the pipeline: height, guidance_scale, negative_prompt …
        out: solver file to write. `overwrite` replaces one that is there.
        cache: folder that keeps references and the state of learning; the same call goes on after an interruption.
        pairs, validation_pairs, test_pairs: noise and conditions to learn from, to stop by, and to judge by.
        iterations: of the optimiser. order: slopes that a step weighs.
        reference_steps: of the pipeline's own scheduler.
        afs: True or False decides on an analytical first step, else the training pairs do.
        noise_seed: of the first pair's noise.
        comm: processes that share the pairs, such as `dyweight.Comm()`. They leave the bytes of one.
        progress: False says nothing; a function gets every line.
    """
    say = progress if callable(progress) else print if progress else (lambda _: None)
    if comm is not None and comm.rank != 0:
        say = lambda _: None  # noqa: E731
    box = BlackBox(pipe, _conditions(prompts, conditions), {**(call or {}), **more})
    _check_counts(steps, nfe, pairs, validation_pairs, test_pairs, iterations, order, reference_steps)
    _check_out(out, overwrite)
    plan = _Plan(len(box.conditions), pairs, validation_pairs, test_pairs, noise_seed)
    seconds = timer()
    if isinstance(pipe.scheduler, DyWeightScheduler):
        raise ValueError(f"{box.kind} already has a learned scheduler: set its own again before another is learned")
    with box.borrowed():
        setting = _setting(box, steps, nfe, reference_steps, plan.training[0])
        agreement = check(setting, plan.training[0])
        job = _Job(setting, plan, order, iterations, afs, comm, None if cache is None else Path(cache), say)
        job.estimate()
        learned, start, validation = job.learn()
        distances, notes = job.judge(learned)
    record = _finished(job, learned, start, validation, distances, agreement)
    solver = Solver(_native.solver_checked(json.dumps(record)))
    if out is not None and (comm is None or comm.rank == 0):
        solver.save(out)
    is_set = _is_closer(distances)
    if distances[OURS] > FAR:
        notes.append("the learned solver is far from the reference: take more steps, or look at pictures first")
    if is_set:
        pipe.scheduler = setting.scheduler(start).with_solver(SolverFile(record)).renewed().of_pipeline(pipe)
    return FewSteps(
        solver, is_set, distances, setting.number, start.name, validation, agreement, job.evaluations, seconds(), notes
    )


def _is_closer(distances: dict[str, float]) -> bool:
    """True if the learned solver is closer than every other by more than a hundredth.

    Where the reference itself runs away all distances are 1, but for rounding.
    """
    return distances[OURS] < 0.99 * min(distance for name, distance in distances.items() if name != OURS)


def train_pipeline(
    pipe: DiffusionPipeline,
    prompts: Sequence[str | dict[str, object]] | None,
    nfe: int,
    guidance_scale: float | None = None,
    *,
    call: dict[str, object] | None = None,
    **options: Unpack[Options],
) -> Solver:
    """`few_steps` for those who count network calls, two per evaluation under guidance. Returns the solver."""
    given = dict(call or {}) if guidance_scale is None else {**(call or {}), "guidance_scale": guidance_scale}
    found = few_steps(pipe, nfe=nfe, prompts=prompts, call=given, **options)
    return found.solver


def _conditions(prompts: Any, conditions: Any) -> list[dict[str, Any]]:
    """What the pipeline is called with, one dictionary each."""
    if isinstance(prompts, str):
        raise TypeError("prompts is one text: give a list of them")
    asked = [p if isinstance(p, dict) else {"prompt": p} for p in prompts or []] + [dict(c) for c in conditions or []]
    if (prompts is not None or conditions is not None) and not asked:
        raise ValueError("at least one prompt or condition is needed; leave both out for a pipeline that takes none")
    return asked or [{}]


def _check_counts(steps: int | None, nfe: int | None, *counts: int) -> None:
    if (steps is None) == (nfe is None):
        raise TypeError("give either steps (evaluations) or nfe (network calls)")
    names = ("pairs", "validation_pairs", "test_pairs", "iterations", "order", "reference_steps")
    for name, value in {"steps or nfe": steps or nfe, **dict(zip(names, counts))}.items():
        least = 0 if name in ("iterations", "validation_pairs") else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}: at least {least} is needed")


def _check_out(out: Any, overwrite: bool) -> None:
    if out is not None and Path(out).exists() and not overwrite:
        raise FileExistsError(f"{out} is there already: choose another out, or overwrite=True")


def _setting(box: BlackBox, steps: int | None, nfe: int | None, reference_steps: int, pair: Pair) -> Setting:
    if steps is not None:
        return setting_of(box, steps, reference_steps, pair)
    assert nfe is not None
    calls = setting_of(box, 2, 8, pair).calls
    if nfe % calls:
        near = f"{nfe - nfe % calls} or {nfe - nfe % calls + calls}" if nfe > calls else str(calls)
        raise ValueError(f"nfe is {nfe}, but an evaluation of {box.kind} under guidance is {calls} calls: choose {near}")
    return setting_of(box, nfe // calls, reference_steps, pair)


class _Plan:
    """Which condition and which noise each pair has. A quarter of the conditions is kept for the judgement."""

    def __init__(self, conditions: int, training: int, validation: int, test: int, seed: int) -> None:
        held = conditions // 4
        shown = conditions - held
        self.training = [(i % shown, seed + i) for i in range(training)]
        self.validation = [(i % shown, seed + 100_000 + i) for i in range(validation)]
        self.test = [(shown + i % held if held else i % conditions, seed + 200_000 + i) for i in range(test)]


class _Job:
    """One solver's way from its start to the judgement."""

    def __init__(
        self, setting: Setting, plan: _Plan, order: int, iterations: int, afs: bool | None, comm: Any, cache: Path | None,
        say: Callable[[str], Any],
    ) -> None:  # fmt: skip
        self.setting, self.plan, self.order, self.iterations, self.afs, self.say = setting, plan, order, iterations, afs, say
        self.evaluations, self.comm = 0, comm
        self.lab = Lab(setting, comm, cache, self._count)

    def _count(self, evaluations: int) -> None:
        self.evaluations += evaluations

    def estimate(self) -> None:
        """Says how long it may take and what it holds, from one short run."""
        seconds = timer()
        log = self.setting.box.run(self.setting.box.fresh(), self.setting.own_number, self.plan.training[0])
        each = seconds() / self.setting.steps
        pairs = len(self.plan.training) + len(self.plan.validation) + len(self.plan.test)
        steps, parameters = self.setting.steps, self._parameters()
        solves = _native.most_solves(self.iterations, parameters, len(self.plan.training), len(self.plan.validation))
        candidates = 20 * min(4, len(self.plan.training)) + 3 * len(self.plan.training)
        total = pairs * self.setting.reference_steps + (solves + candidates + 4 * len(self.plan.test)) * steps
        share = 1 if self.comm is None else self.comm.size
        # References, and twice one pair's ends under every candidate, in f64.
        held = 8 * len(log.end) * (pairs + 2 * (parameters + 1))
        self.say(
            f"{self.setting.box.kind}: {steps} evaluations of {each:.3g} s ({self.setting.calls} network calls each),"
            f" {parameters} parameters, {pairs} pairs: at most {total} evaluations, {_duration(total * each / share)};"
            f" the memory of sampling and {_size(held)}"
        )

    def _parameters(self) -> int:
        return sum(min(i + 1, self.order) for i in range(self.setting.steps)) + self.setting.steps

    def learn(self) -> tuple[dict[str, Any], Start, tuple[float, float]]:
        """The solver, what it began as, and its distances on the validation pairs before and after."""
        self.lab.make_targets([*self.plan.training, *self.plan.validation])
        kept = self._kept()
        start = kept["start"] if kept else self._best_start()
        solves = Solves(self.lab, start, self.plan.training, self.plan.validation)
        state = kept["state"] if kept else None
        optimiser = _native.Optimiser(solves.first(), solves, self.iterations, self.comm, state)
        self._keep(start, optimiser.state)
        while not optimiser.is_finished:
            loss, _, _, taken = optimiser.advance()
            self._keep(start, optimiser.state)
            note = "" if taken else " (no step was better)"
            self.say(f"iteration {optimiser.iteration}: distance {optimiser.best_validation**0.5:.4f}, training {loss**0.5:.4f}{note}")
        ends = (optimiser.initial_validation**0.5, optimiser.best_validation**0.5)
        return solves.record(optimiser.best), start, ends

    def _best_start(self) -> Start:
        """Of the handcrafted solvers: all on a few training pairs, the best of these on all."""
        candidates = [] if self.afs is True else starts(self.setting, self.order)
        if self.afs is not False:
            candidates += [s.window(self.order) for s in self._analytical()]
        if not candidates:
            raise ValueError("an analytical first step needs a pipeline that scales its noise: leave afs out")
        few = self.plan.training[:4]
        found = [(self.lab.of_start(start, few), start) for start in candidates]
        best = sorted(found, key=lambda item: item[0])[:3]
        if len(self.plan.training) > len(few):
            best = sorted(((self.lab.of_start(s, self.plan.training), s) for _, s in best), key=lambda item: item[0])
        self.say(f"begins as {best[0][1].name}, distance {best[0][0]:.4f}, the best of {len(candidates)} handcrafted solvers")
        return best[0][1]

    def _analytical(self) -> list[Start]:
        log = self.setting.box.run(
            self.setting.scheduler(starts(self.setting, 1)[0]), self.setting.number, self.plan.training[0]
        )
        return with_analytical_step(self.setting) if log.noise_was_scaled else []

    def _place(self) -> Path | None:
        if self.lab.cache is None:
            return None
        asked = (self.setting.steps, self.order, self.iterations, self.afs, self.plan.training, self.plan.validation)
        return self.lab.cache / f"{self.lab.name(self.setting.box.conditions, *asked)}.json"

    def _kept(self) -> dict[str, Any] | None:
        """The state of an earlier run of the same. All processes take that of the first."""
        place = self._place()
        found = place.read_bytes() if place is not None and place.exists() else b""
        found = found if self.comm is None else self.comm.broadcast(found)
        if not found:
            return None
        kept = json.loads(found)
        return {"start": Start(**kept["start"]), "state": kept["state"]}

    def _keep(self, start: Start, state: list[float]) -> None:
        place = self._place()
        if place is not None and self.lab.rank == 0:
            place.parent.mkdir(parents=True, exist_ok=True)
            _native.write(place, json.dumps({"start": vars(start), "state": state}).encode())

    def judge(self, record: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
        """Distances on pairs that nothing was chosen on: the pipeline's own scheduler first, ours last."""
        setting, test = self.setting, self.plan.test
        self.lab.make_targets(test)
        own = type(setting.box.own).__name__
        found = {own: rms(self.lab.distances(setting.box.fresh, setting.own_number, test))}
        notes = []
        for name, make in rivals(setting.box.own).items():
            try:
                number, _ = number_of_steps(setting.box, lambda _, make=make: make(), setting.steps, test[0], rival=True)
                found[name] = rms(self.lab.distances(make, number, test, rival=True))
            except Exception as error:  # whatever a pipeline and another scheduler have against each other
                why = " ".join(str(error).split())[:120]
                notes.append(f"{name} does not run in this pipeline: {type(error).__name__}{why and ': '}{why}")
        ours = setting.scheduler(Start("", record["schedule"]["sigmas"], record["body"]["weights"], record["afs"]))
        file = SolverFile(record)
        found[OURS] = rms(self.lab.distances(lambda: ours.with_solver(file), setting.number, test))
        return found, notes


def _finished(
    job: _Job, record: dict[str, Any], start: Start, validation: tuple[float, float], distances: dict[str, float], agreement: float
) -> dict[str, Any]:
    """The solver file, with where it comes from."""
    setting, box = job.setting, job.setting.box
    name, config = name_and_config(box.own)
    few = setting.few.offered[0]
    guidance = _guidance(box)
    facts = {
        "pipeline": box.kind, "scheduler": {"_class_name": name, **_plain(config)}, "start": start.name,
        "reference": name if setting.reference_is_own else "2M, refined", "reference_steps": setting.reference_steps,
        "pairs": len(job.plan.training), "conditions": len(box.conditions), "evaluations": job.evaluations,
        "validation": _plain(list(validation)), "distances": _plain(distances), "agreement": agreement,
        "network": identity.digest(identity.networks(box.pipe)), "dtype": str(getattr(box.pipe, "dtype", None)), "adapters": identity.adapters(box.pipe),
        "call": {k: v for k, v in box.call.items() if isinstance(v, (bool, int, float, str))},
        "num_inference_steps": setting.number, "variance_one": setting.process.outer(1.0) != 1.0, **({"mu": float(few["mu"])} if few.get("mu") is not None else {}),
        **box.settings,
        **({"offered": [float(v) for v in few["sigmas"]]} if few.get("sigmas") is not None else {}),
    }  # fmt: skip
    made = {**record, "training": facts, "model": {"name": box.kind}}
    if setting.calls == 2:
        made["nfe"] = 2 * (record["steps"] - int(record["afs"]))
    if isinstance(guidance, (int, float)) and not isinstance(guidance, bool):
        made["guidance"] = float(guidance)
    return made


def _plain(value: Any) -> Any:
    """What JSON can hold: None in place of NaN and infinity, lists in place of arrays."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _guidance(box: BlackBox) -> Any:
    """The scale that a pipeline is called with, be it by default."""
    default = box.takes["guidance_scale"].default if "guidance_scale" in box.takes else None
    return {**box.conditions[0], **box.call}.get("guidance_scale", default)


def _size(count: float) -> str:
    for unit, length in (("GB", 1e9), ("MB", 1e6)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
