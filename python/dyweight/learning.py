"""Learning a solver for a pipeline as it is: what runs, what is compared, what is kept. `few_steps` is the way in."""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import identity
from .black_box import BlackBox, Pair
from .process import Process, TableProcess, UnknownProcess, adds_noise, betas, effective, name_and_config, process_of
from .scheduler import DyWeightScheduler
from .solver_file import SolverFile, SolverFileError
from .starts import Start, adams, as_weights, karras, log_uniform, resampled, second_order_multistep, shifted
from .watching import Log

#: A scheduler of the first order agrees with ours to this share of the picture, or the process is another one.
AGREEMENT = 0.01
ROUGH_AGREEMENT = 0.05
#: `num_inference_steps` beyond which no number is tried: tables have a thousand levels.
_MOST_STEPS = 1000
#: Steps of the check.
CHECKED = 8


@dataclass
class Setting:
    """A pipeline at a number of evaluations: what its own scheduler does there, and what ours must do."""

    box: BlackBox
    process: Process
    steps: int
    #: `num_inference_steps` that makes so many evaluations, of the pipeline's own scheduler and of ours.
    own_number: int
    number: int
    few: Log
    long_levels: list[float]
    end: float
    reference_is_own: bool
    reference_steps: int
    #: Network calls of one evaluation.
    calls: int = 1

    @property
    def begin(self) -> int:
        return self.few.begin or 0

    @property
    def start_level(self) -> float:
        """Where the few-step run of the pipeline's own scheduler begins."""
        return self.process.level(self.few.timesteps[self.begin])

    def scheduler(self, start: Start, number: int | None = None) -> DyWeightScheduler:
        """Ours, with a solver's coefficients."""
        record = record_of(start, self.process, number or self.number)
        return DyWeightScheduler._from_solver(SolverFile(record), self.box.own, self.box.settings)


def record_of(start: Start, process: Process, number: int, scales: list[float] | None = None) -> dict[str, Any]:
    """A solver file's content."""
    steps = len(start.weights)
    return {
        "format": "dyweight-solver", "version": 2, "method": "dyweight", "nfe": steps - int(start.afs), "steps": steps,
        "afs": start.afs, "prediction": "velocity" if process.flow else "denoised", "bounded": False,
        "schedule": {"kind": "explicit", "sigmas": start.sigmas},
        "sigma_min": start.sigmas[-1], "sigma_max": start.sigmas[0],
        "body": {
            "order": max(map(len, start.weights)), "time_shift": True, "weights": start.weights,
            "time_scale": [1.0] * (steps - int(start.afs)) if scales is None else scales,
        },
        "training": {"num_inference_steps": number, "offered": False, "variance_one": process.outer(1.0) != 1.0},
    }  # fmt: skip


def number_of_steps(box: BlackBox, make: Callable[[int], Any], evaluations: int, pair: Pair, **how: Any) -> tuple[int, Log]:
    """The `num_inference_steps` at which a pipeline makes so many evaluations, found by trying."""
    tried: dict[int, int] = {}
    number = _guess(box, evaluations, pair)
    while len(tried) < 10 and 1 <= number <= _MOST_STEPS and number not in tried:
        try:
            log = box.run(make(number), number, pair, **how)
        except (ValueError, IndexError):
            if not tried:
                raise
            break  # some schedulers cannot make so few steps
        made = tried[number] = log.evaluations
        if made == evaluations:
            return number, log
        number = max(round(number * evaluations / max(made, 1)), 1)
        towards = 1 if tried.get(number, made) < evaluations else -1
        if number in tried:
            number += towards
        if number in tried and (tried[number] < evaluations) == (towards < 0):
            break  # too few at one number, too many at the next
        while number in tried:
            number += towards
    found = ", ".join(f"{made} at {n}" for n, made in sorted(tried.items()))
    raise ValueError(
        f"{box.kind} cannot make {evaluations} evaluations here (evaluations at num_inference_steps: {found}):"
        " choose another number of steps"
    )


def _guess(box: BlackBox, evaluations: int, pair: Pair) -> int:
    """With a strength of 0.3 a pipeline makes three tenths of the steps it is asked for."""
    default = box.takes["strength"].default if "strength" in box.takes else None
    strength = {**box.call, **box.conditions[pair[0]]}.get("strength", default)
    plain = isinstance(strength, (int, float)) and 0.0 < strength < 1.0
    return math.ceil(evaluations / strength - 1e-9) if plain else evaluations


def setting_of(box: BlackBox, steps: int, reference_steps: int, pair: Pair) -> Setting:
    """Looks at the pipeline's own scheduler at work."""
    process = process_of(box.own)
    own_number, few = _own_few(box, steps, pair)
    if not torch.isfinite(few.end).all():
        raise FloatingPointError(f"{box.kind} diverged (NaN or infinity) with its own scheduler and {own_number} steps")
    scheduler = next(iter(few.runs.values()))["scheduler"]
    if process.flow:
        box.settings = _told_apart(box, scheduler, process, few)
        name, config = name_and_config(box.own)
        process = process_of({"_class_name": name, **config, **box.settings})
    number, _ = _with_ours(box, lambda: number_of_steps(box, lambda n: _uniform(box, process, n), steps, pair))
    begin = few.begin or 0
    total = max(round(reference_steps * own_number / steps), reference_steps)
    far = box.run(box.fresh(), total, pair, stop=True)
    levels = falling([process.level(t) for t in far.timesteps[far.begin or 0 :]])
    own = begin == 0 and not adds_noise(box.own)
    end = _end(scheduler)
    # Some schedulers end where their last call is, and make of it a step of no length.
    end = end if end < levels[-1] * (1.0 - 1e-6) else 0.0
    setting = Setting(box, process, steps, own_number, number, few, levels, end, own, total)
    setting.calls = network_calls(box, setting, pair)
    return setting


def _told_apart(box: BlackBox, scheduler: Any, process: Process, few: Log) -> dict[str, float]:
    """Nothing where the network is told its level; a shift where that leads from what it is told to its level."""
    sigmas = [float(v) for v in getattr(scheduler, "sigmas", [])][: len(few.timesteps)]
    levels = [1.0 - v if scheduler.config.get("invert_sigmas") else v for v in sigmas]
    pairs = list(zip(levels, map(process.level, few.timesteps)))
    if all(abs(level - told) < 0.005 for level, told in pairs):
        return {}
    shifts = sorted(v * (1.0 - u) / (u * (1.0 - v)) for v, u in pairs if 0.01 < v < 0.99 and 0.01 < u < 0.99)
    shift = shifts[len(shifts) // 2] if shifts else 1.0
    for level, told in pairs:
        if abs(level - shift * told / (1.0 + (shift - 1.0) * told)) > 0.005:
            raise UnknownProcess(
                f"{type(box.own).__name__} in {box.kind} is not served: at level {level:.3g} the network is told {told:.3g}"
            )
    return {"told_shift": shift}


def _own_few(box: BlackBox, steps: int, pair: Pair) -> tuple[int, Log]:
    try:
        return number_of_steps(box, lambda _: box.fresh(), steps, pair)
    except (ValueError, AttributeError, TypeError) as error:
        # Some pipelines have an output_type, and none that spares decoding.
        if not box._latent:
            raise _explained(box, error) from error
        box.without_latents()
    try:
        return number_of_steps(box, lambda _: box.fresh(), steps, pair)
    except (AttributeError, TypeError, KeyError, IndexError, AssertionError) as error:
        raise _explained(box, error) from error


def _with_ours(box: BlackBox, run: Callable[[], Any]) -> Any:
    """A first run with our scheduler. What a pipeline has against it is said in a sentence."""
    try:
        return run()
    except (ValueError, NotImplementedError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, TypeError, AttributeError, LookupError, AssertionError, ArithmeticError) as error:
        said = " ".join(str(error).split())[:300]
        raise NotImplementedError(
            f"{box.kind} does not run with a learned scheduler as it is called here: {type(error).__name__}: {said}"
        ) from error


def _explained(box: BlackBox, error: Exception) -> Exception:
    """What a pipeline has against its own scheduler, or against what it is called with, in a sentence."""
    if isinstance(error, ValueError):
        return error
    said = " ".join(str(error).split())[:300]
    return NotImplementedError(f"{box.kind} does not run with {type(box.own).__name__} as it is called here: {said}")


def falling(levels: Iterable[float]) -> list[float]:
    """Levels without repetitions: some schedulers go over a level twice."""
    kept: list[float] = []
    for level in levels:
        if not kept or level < kept[-1] * (1.0 - 1e-9):
            kept.append(level)
    return kept


def _end(scheduler: Any) -> float:
    """The level at which the pipeline's own scheduler stops."""
    if hasattr(scheduler, "final_alpha_cumprod"):
        alpha = float(scheduler.final_alpha_cumprod)
        return math.sqrt(max(1.0 / alpha - 1.0, 0.0))
    sigmas = getattr(scheduler, "sigmas", None)
    last = float(sigmas[-1]) if sigmas is not None and len(sigmas) else 0.0
    return 1.0 - last if scheduler.config.get("invert_sigmas") else last


def _uniform(box: BlackBox, process: Process, steps: int) -> DyWeightScheduler:
    """Ours with Euler steps evenly in what the network is told, to see what a pipeline makes of a number of steps."""
    low, high = process.sigma_range
    told = [process.told(high), process.told(max(low, 1e-3))]
    levels = [process.level(told[0] + i / steps * (told[1] - told[0])) for i in range(steps)] + [0.0]
    start = adams("Euler", levels, 1)
    return DyWeightScheduler._from_solver(SolverFile(record_of(start, process, steps)), box.own, box.settings)


def network_calls(box: BlackBox, setting: Setting, pair: Pair) -> int:
    """Calls of the largest network per evaluation, a batch of two under guidance counting as two."""
    counted: dict[str, float] = {}
    parts = {k: v for k, v in identity.parts(box.pipe).items() if "vae" not in k and "encoder" not in k}
    handles = [part.register_forward_pre_hook(_counter(name, counted), with_kwargs=True) for name, part in parts.items()]
    try:
        log = box.run(setting.scheduler(_long(setting)), setting.number, pair)
    finally:
        for handle in handles:
            handle.remove()
    if not counted:
        return 1
    size = {name: sum(p.numel() for p in parts[name].parameters()) for name in counted}
    largest = max(counted, key=lambda name: size[name])
    batch = next(iter(log.runs.values()))["end"].shape[0]
    return max(round(counted[largest] / batch / setting.steps), 1)


def _counter(name: str, counted: dict[str, float]) -> Callable[..., None]:
    def count(_: Any, given: Any, named: Any) -> None:
        tensors = [v for v in (*given, *named.values()) if isinstance(v, torch.Tensor) and v.ndim > 1]
        counted[name] = counted.get(name, 0.0) + (tensors[0].shape[0] if tensors else 1)

    return count


def _long(setting: Setting) -> Start:
    """Euler on the pipeline's own levels, resampled to the few steps."""
    return adams("Euler", resampled([*setting.long_levels, setting.end], setting.steps), 1)


# --- the check before the work ---


def check(setting: Setting, pair: Pair) -> float:
    """How far ours is from the pipeline's own process, with a scheduler of the first order; refused if it is another."""
    box, process = setting.box, setting.process
    sibling, steps = first_order(box.own), CHECKED
    if sibling is None:
        sibling, steps = _in_one_step(box), 1
    number, theirs = number_of_steps(box, lambda _: copy.deepcopy(sibling), steps, pair, keep=True, rival=True)
    begin = theirs.begin or 0
    levels = [process.level(t) for t in theirs.timesteps[begin:]]
    end = _end(next(iter(theirs.runs.values()))["scheduler"])
    # Some schedulers end where their last call is, and make of it a step of no length.
    end = min(end, levels[-1] * (1.0 - 1e-6))
    if len(falling([*levels, end])) != steps + 1:
        raise UnknownProcess(
            f"{type(box.own).__name__} in {box.kind}: the levels of its timesteps do not fall: {[f'{v:.3g}' for v in levels]}"
        )
    ours = setting.scheduler(adams("Euler", [*levels, end], 1), number)
    ours.process.clip = None  # as in diffusers' own steps: clipping is no part of the process
    log = _with_ours(box, lambda: box.run(ours, number, pair, keep=True))
    return _compared(setting, levels[0], theirs, log)


def _in_one_step(box: BlackBox) -> Any:
    """The own scheduler, made to go from its first level to the end at once: then it adds no noise and has no memory."""
    own = box.fresh()
    config = dict(own.config)
    return _made(type(own), {**config, "sigma_min": 0.998 * config["sigma_max"]}, own) if "sigma_max" in config else own


def _compared(setting: Setting, top: float, theirs: Log, log: Log) -> float:
    error = distance(log.end, theirs.end)
    precise = next(iter(log.runs.values()))["end"].dtype in (torch.float32, torch.float64)
    # Data predicted from noise of such a level are the small difference of two large numbers, for any scheduler.
    if error <= (AGREEMENT if precise and top < 1000.0 else ROUGH_AGREEMENT):
        return error
    steps = enumerate(zip(log.states, theirs.states))
    parts = [f"{distance(a.flatten().double(), b.flatten().double()):.2g} after step {i + 1}" for i, (a, b) in steps]
    raise UnknownProcess(
        f"{type(setting.box.own).__name__} in {setting.box.kind} is not understood: ours differs from diffusers' own steps of"
        f" the first order by {error:.2g} of the result ({'; '.join(parts[-3:])}); its settings:"
        f" {name_and_config(setting.box.own)[1]}"
    )


def distance(ours: Any, theirs: Any) -> float:
    """Relative root mean square."""
    if ours.shape != theirs.shape:
        return math.inf
    size = float(theirs.norm())
    return float((ours - theirs).norm()) / max(size, 1e-30)


def first_order(own: Any) -> Any:
    """A deterministic scheduler of diffusers of the first order for the same process; none where there is none."""
    import diffusers

    name, config = name_and_config(own)
    config, process = _portable(effective(name, config)), process_of(own)
    plain = {"use_karras_sigmas": False, "use_exponential_sigmas": False, "use_beta_sigmas": False}
    if name.startswith("EDM"):
        return _made(diffusers.EDMEulerScheduler, config, own)
    if name == "MiniMaxH3Scheduler":
        return _made(diffusers.MiniMaxH3Scheduler, config, own)
    if name.startswith(("FlowMatch", "LTXEuler")):
        return _made(diffusers.FlowMatchEulerDiscreteScheduler, {**config, "stochastic_sampling": False}, own)
    if name.startswith(("Cosine", "IPNDM")):
        return None
    if name == "EulerDiscreteScheduler":
        return _made(diffusers.EulerDiscreteScheduler, {**config, **plain, "final_sigmas_type": "zero"}, own)
    if config.get("snr_shift_scale"):
        return _made(diffusers.CogVideoXDDIMScheduler, {**config, "clip_sample": False}, own)
    if not process.flow and "set_alpha_to_one" in config and not config.get("trained_betas"):
        return _made(diffusers.DDIMScheduler, {**config, "clip_sample": False, "thresholding": False, "set_alpha_to_one": True}, own)
    more = {"solver_order": 1, "algorithm_type": "dpmsolver++", "thresholding": False, "final_sigmas_type": "zero"}
    return _made(diffusers.DPMSolverMultistepScheduler, {**config, **plain, **more}, own)


def _portable(config: dict[str, Any]) -> dict[str, Any]:
    """Settings that every class of noise tables takes: few know the sigmoid rule."""
    if config.get("beta_schedule") != "sigmoid" or config.get("trained_betas") is not None:
        return config
    return {**config, "beta_schedule": "linear", "trained_betas": betas(config, config.get("num_train_timesteps", 1000))}


def _made(kind: Any, config: dict[str, Any], own: Any) -> Any:
    """A scheduler of a class with what it knows of a configuration; the rest stays for pipelines that look for it."""
    takes = inspect.signature(kind.__init__).parameters
    made = kind(**{k: v for k, v in config.items() if k in takes})
    # Cosmos's pipelines put settings in place that their scheduler's class does not have.
    rest = {**name_and_config(own)[1], **config}
    made.register_to_config(**{k: v for k, v in rest.items() if k not in takes})
    return made


def rivals(own: Any) -> dict[str, Callable[[], Any]]:
    """What else could be set as the pipeline's scheduler for the same process."""
    import diffusers

    name, config = name_and_config(own)
    config = effective(name, config)
    if name.startswith("EDM"):
        return {"DPM-Solver++(2M)": lambda: _made(diffusers.EDMDPMSolverMultistepScheduler, config, own)}
    if name.startswith(("Cosine", "IPNDM", "MiniMax")) or config.get("invert_sigmas") or config.get("snr_shift_scale"):
        return {}
    if getattr(process_of(own), "continuous", False):
        return {}
    if name.startswith(("FlowMatch", "LTXEuler")):
        shift = config.get("shift") or 1.0
        config = {**config, "use_flow_sigmas": True, "prediction_type": "flow_prediction", "flow_shift": shift}
    config = {k: v for k, v in _portable(config).items() if k not in ("solver_type", "algorithm_type", "solver_order")}
    return {
        "DPM-Solver++(2M)": lambda: _made(diffusers.DPMSolverMultistepScheduler, config, own),
        "UniPC": lambda: _made(diffusers.UniPCMultistepScheduler, config, own),
    }


# --- where learning begins ---


def starts(setting: Setting, order: int) -> list[Start]:
    """Handcrafted solvers of so many evaluations: those of diffusers and some more, on several grids."""
    found = [*_of_diffusers(setting), *_of_formulas(setting)]
    sound, seen = [], set()
    for start in found:
        key = tuple(round(v, 6) for v in (*start.sigmas, *itertools.chain(*start.weights)))
        if key not in seen and len(start.weights) - int(start.afs) == setting.steps:
            seen.add(key)
            sound.append(start.window(order))
    return sound


def _of_diffusers(setting: Setting) -> list[Start]:
    own, process = setting.box.own, setting.process
    makers: dict[str, Callable[[], Any]] = {}
    if setting.reference_is_own:
        makers[type(own).__name__] = setting.box.fresh
    makers.update(rivals(own))
    found = []
    for name, make in makers.items():
        try:
            scheduler = copy.deepcopy(make())
            offered = dict(setting.few.offered[0])
            takes = inspect.signature(type(scheduler).set_timesteps).parameters
            if "sigmas" in offered and "sigmas" not in takes:
                offered = {"num_inference_steps": len(offered["sigmas"]), **{k: offered[k] for k in ("mu",) if k in offered}}
            scheduler = _without_clipping(scheduler)
            end = _end_after(scheduler, offered)
            start = as_weights(name, scheduler, process, offered, setting.begin, end)
        except (ValueError, TypeError, RuntimeError, AssertionError, IndexError, NotImplementedError, AttributeError):
            continue  # a rival that cannot make these steps is no start
        found += [start] if start is not None else []
    return found


def _without_clipping(scheduler: Any) -> Any:
    off = {k: False for k in ("clip_sample", "thresholding") if k in scheduler.config}
    return type(scheduler).from_config({**scheduler.config, **off}) if off else scheduler


def _end_after(scheduler: Any, offered: dict[str, Any]) -> float:
    takes = inspect.signature(type(scheduler).set_timesteps).parameters
    scheduler.set_timesteps(**{k: v for k, v in offered.items() if k in takes})
    return _end(scheduler)


def _of_formulas(setting: Setting) -> list[Start]:
    process, steps, end = setting.process, setting.steps, setting.end
    long = _from_start(setting)
    grids = {"own grid": resampled([*long, end], steps)}
    few = falling([process.level(t) for t in setting.few.timesteps[setting.begin :]])
    if len(few) == steps:
        grids["own few-step grid"] = [*few, end]
    top = long[0]
    if process.flow:
        for shift in (1.0, 2.0, 4.0):
            grids[f"shift {shift:g}"] = shifted(top, steps, shift, end)
    else:
        low = max(process.sigma_range[0], 1e-3)
        grids["Karras"] = karras(top, low, steps, 7.0, end)
        grids["log-uniform"] = log_uniform(top, low, steps, end)
    found = []
    for name, grid in grids.items():
        if any(not a > b for a, b in itertools.pairwise(grid)):
            continue
        found.append(second_order_multistep(f"2M, {name}", grid, process.flow))
        found += [adams(f"Adams–Bashforth {k}, {name}", grid, k) for k in (2, 3)]
    return found


def with_analytical_step(setting: Setting) -> list[Start]:
    """Solvers whose first slope costs no call, where the pipeline scales its noise."""
    if setting.process.flow or setting.begin or setting.process.shown(1.0) != 1.0:
        return []
    long, end, steps = _from_start(setting), setting.end, setting.steps + 1
    low = max(setting.process.sigma_range[0], 1e-3)
    grids = {"own grid": resampled([*long, end], steps), "Karras": karras(long[0], low, steps, 7.0, end)}
    made = [second_order_multistep(f"2M after an analytical step, {name}", grid, False) for name, grid in grids.items()]
    return [Start(s.name, s.sigmas, s.weights, afs=True) for s in made]


def _from_start(setting: Setting) -> list[float]:
    """The pipeline's own long grid, from where its short one begins in image to image."""
    if not setting.begin:
        return setting.long_levels
    top = setting.start_level
    return [top, *(level for level in setting.long_levels if level < top * (1.0 - 1e-6))]


# --- runs that are compared ---


class Lab:
    """Runs of a pipeline against a reference, shared by processes and kept in a folder."""

    def __init__(self, setting: Setting, comm: Any, cache: Path | None, seen: Callable[[int], None]) -> None:
        self.setting, self.comm, self.cache, self.seen = setting, comm, cache, seen
        self.targets: dict[Pair, torch.Tensor] = {}
        self.template: DyWeightScheduler | None = None
        self._identity = None if cache is None else self._of_everything()

    def _of_everything(self) -> str:
        box, setting = self.setting.box, self.setting
        return identity.digest(
            box.kind, name_and_config(box.own), identity.weights(box.pipe), identity.settings(box.pipe), box.call,
            setting.reference_steps, setting.reference_is_own, setting.few.offered,
            [round(v, 9) for v in setting.long_levels],
        )  # fmt: skip

    def name(self, *more: Any) -> str:
        """A name for something that belongs to this pipeline, condition and seed."""
        return identity.digest(self._identity, *more)

    def rank_of(self, index: int) -> int:
        return index % self.comm.size if self.comm is not None else 0

    @property
    def rank(self) -> int:
        return self.comm.rank if self.comm is not None else 0

    def gather(self, mine: dict[int, bytes]) -> dict[int, bytes]:
        """What each process has made, at every process."""
        if self.comm is None or self.comm.size == 1:
            return mine
        texts = self.comm.all_gather(json.dumps({k: v.hex() for k, v in mine.items()}).encode())
        return {int(k): bytes.fromhex(v) for text in texts for k, v in json.loads(text).items()}

    def make_targets(self, pairs: list[Pair]) -> None:
        """The reference of each pair."""
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self.targets]
        mine = [i for i in range(len(missing)) if self.rank_of(i) == self.rank]
        made = self.gather({i: self._target(missing[i]).numpy().tobytes() for i in mine})
        for i, pair in enumerate(missing):
            self.targets[pair] = torch.frombuffer(bytearray(made[i]), dtype=torch.float64)

    def _target(self, pair: Pair) -> torch.Tensor:
        box = self.setting.box
        place = None if self.cache is None else self.cache / f"{self.name(box.conditions[pair[0]], pair[1])}.npy"
        if place is not None and place.exists():
            return torch.from_numpy(np.load(place)).double()
        found = self._reference(pair)
        if not torch.isfinite(found).all():
            raise FloatingPointError(f"the reference of {box.kind} diverged (NaN or infinity) at seed {pair[1]}")
        if place is not None:
            keep(place, found.numpy())
        return found

    def _reference(self, pair: Pair) -> torch.Tensor:
        setting = self.setting
        if setting.reference_is_own:
            log = setting.box.run(setting.box.fresh(), setting.reference_steps, pair)
        else:
            log = setting.box.run(_refined(setting), setting.reference_steps, pair)
        self.seen(log.evaluations)
        return log.end

    def distances(self, scheduler: Callable[[], Any], number: int, pairs: list[Pair], **how: Any) -> list[float]:
        """Of each pair's end to its reference."""
        mine = {
            i: np.float64(self._distance(scheduler(), number, pair, how)).tobytes()
            for i, pair in enumerate(pairs) if self.rank_of(i) == self.rank
        }  # fmt: skip
        made = self.gather(mine)
        return [float(np.frombuffer(made[i])[0]) for i in range(len(pairs))]

    def _distance(self, scheduler: Any, number: int, pair: Pair, how: Any) -> float:
        log = self.setting.box.run(scheduler, number, pair, **how)
        self.seen(log.evaluations)
        found = distance(log.end, self.targets[pair])
        return found if math.isfinite(found) else math.inf

    def of_start(self, start: Start, pairs: list[Pair]) -> float:
        """Root mean square of the distances under a handcrafted solver; infinite if it cannot be run."""
        try:
            return rms(self.distances(lambda: self.setting.scheduler(start), self.setting.number, pairs))
        except SolverFileError:
            return math.inf


def _refined(setting: Setting) -> DyWeightScheduler:
    """Ours on the pipeline's own long grid: the reference where the own scheduler adds noise or begins elsewhere."""
    levels = [*_from_start(setting), setting.end]
    # Of so many steps a pipeline that begins in the middle makes as many as its own long grid has levels.
    used = len(setting.long_levels) if setting.begin else setting.reference_steps
    start = second_order_multistep("reference", resampled(levels, max(used, 1)), setting.process.flow)
    return setting.scheduler(start, setting.reference_steps)


def rms(values: list[float]) -> float:
    """Root mean square."""
    return math.sqrt(sum(v * v for v in values) / max(len(values), 1))


def keep(place: Path, array: Any) -> None:
    """Writes an array, all or nothing."""
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    with open(partial, "wb") as file:
        np.save(file, array)
    os.replace(partial, place)


# --- the solves that the optimiser asks for ---


class Solves:
    """Residuals of candidates, for the compiled optimiser: end minus reference, as shares of the reference's size."""

    def __init__(self, lab: Lab, start: Start, training: list[Pair], validation: list[Pair]) -> None:
        self.lab, self.start = lab, start
        self.of = {"training": training, "validation": validation}
        self.shape = [len(row) for row in start.weights]
        self.template = lab.setting.scheduler(start)

    def first(self) -> list[float]:
        """The start's parameters: weights row by row, then the time scales."""
        return [w for row in self.start.weights for w in row] + [1.0] * (len(self.shape) - int(self.start.afs))

    def record(self, parameters: list[float]) -> dict[str, Any]:
        """The solver file of some parameters."""
        numbers = iter(parameters)
        rows = [list(itertools.islice(numbers, length)) for length in self.shape]
        start = Start(self.start.name, self.start.sigmas, rows, self.start.afs)
        return record_of(start, self.lab.setting.process, self.lab.setting.number, list(numbers))

    def pairs(self, split: str) -> int:
        return len(self.of[split])

    def residuals(self, candidates: list[list[float]], split: str, pair: int) -> list[bytes | None]:
        return [self._residual(candidate, self.of[split][pair]) for candidate in candidates]

    def _residual(self, candidate: list[float], pair: Pair) -> bytes | None:
        try:
            scheduler = self.template.with_solver(SolverFile(self.record(candidate)))
        except SolverFileError:
            return None
        log = self.lab.setting.box.run(scheduler, self.lab.setting.number, pair)
        self.lab.seen(log.evaluations)
        target = self.lab.targets[pair]
        if log.end.shape != target.shape or not torch.isfinite(log.end).all():
            return None
        size = float(target.norm()) / math.sqrt(max(len(target), 1))
        return ((log.end - target) / max(size, 1e-30)).numpy().tobytes()


def timer() -> Callable[[], float]:
    """Seconds since."""
    begun = time.perf_counter()
    return lambda: time.perf_counter() - begun
