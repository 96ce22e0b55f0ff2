"""Learning a solver for a loaded model by sampling with it: what runs, where learning begins, what it is compared with.

    found = learn(Runs(model, positive, negative, cfg, latent, watch), Options(steps=5))

The reference is ComfyUI's own `dpmpp_2m` with many steps; a candidate is the same model, conditioning and noise with a
few steps of our coefficients. What is made small is the distance of where the two end. Guidance, ControlNets, LoRAs,
patches and masks are ComfyUI's business: nothing is known of a run but its end, and no gradient is taken.
"""

import itertools
import math
import time
from dataclasses import dataclass

import comfy.sample
import comfy.samplers
import numpy as np
import torch

from .gauss_newton import GaussNewton, most_solves
from .rivals import NAMES, SCHEDULERS, as_weights, fall, sigmas_of
from .sampling import DyWeightSampler, is_flow, with_real_timesteps
from .solver_file import SolverFile, SolverFileError
from .starts import Start, adams, second_order_multistep

#: Of the reference.
REFERENCE, LONG = "dpmpp_2m", {True: "simple", False: "karras"}
ITERATIONS, ORDER = 4, 4
#: Noise that many candidates are first tried on.
FEW = 4
LEARNED = "learned"


@dataclass
class Options:
    """What is learned: evaluations of the network per sample, noises to learn from, and where runs begin."""

    steps: int = 5
    pairs: int = 16
    reference_steps: int = 50
    seed: int = 0
    denoise: float = 1.0

    @property
    def held(self):
        """Noises to stop by, and as many to judge by."""
        return max(self.pairs // 2, 2)


@dataclass
class Found:
    """What was learned: the solver file's content, and distances to the reference on fresh noise, at equal steps."""

    record: dict
    distances: dict
    settings: dict
    start: str
    validation: tuple
    notes: list
    evaluations: int
    seconds: float

    @property
    def best_rival(self):
        """The closest of ComfyUI's own samplers; none if none could run."""
        others = {name: d for name, d in self.distances.items() if name != LEARNED}
        return min(others, key=others.get) if others else None

    @property
    def is_closer(self):
        """Whether the solver is closer than all of them."""
        return self.best_rival is None or self.distances[LEARNED] < self.distances[self.best_rival]


class Runs:
    """A model with its conditioning as a function of sampler, sigmas and seed: where it ends.

    `watch(evaluations)` is called after each run, and with 0 between steps; what it raises ends the work.
    """

    def __init__(self, model, positive, negative, cfg, latent, watch):
        samples = latent["samples"]
        if getattr(samples, "is_nested", False):
            raise ValueError("DyWeight: latents in several parts (sound and pictures at once) cannot be learned for")
        self.flow = is_flow(model.get_model_object("model_sampling"))
        self.model, self.cfg = with_real_timesteps(model), float(cfg)
        self.positive, self.negative, self.mask = positive, negative, latent.get("noise_mask")
        self.samples = comfy.sample.fix_empty_latent_channels(model, samples)
        self.sampling = self.model.get_model_object("model_sampling")
        self.watch, self.evaluations = watch, 0

    @torch.no_grad()
    def end(self, sampler, sigmas, seed, calls=None):
        """The last latents, as one row; `calls` are network evaluations, where they are not one a step."""
        self.watch(0)
        sampler.max_denoise = lambda *_: False
        noise = comfy.sample.prepare_noise(self.samples, seed)
        end = comfy.sample.sample_custom(
            self.model, noise, self.cfg, sampler, torch.tensor(sigmas, dtype=torch.float32),
            self.positive, self.negative, self.samples, noise_mask=self.mask,
            callback=lambda *_: self.watch(0), disable_pbar=True, seed=seed,
        )  # fmt: skip
        made = len(sigmas) - 1 if calls is None else calls
        self.evaluations += made
        self.watch(made)
        return end.flatten().float().cpu().numpy()

    def top(self, denoise):
        """The level that runs begin at: below 1, where so much of the model's timesteps is left."""
        if denoise >= 1.0:
            return float(self.sampling.sigma_max)
        return float(self.sampling.percent_to_sigma(1.0 - denoise))

    def levels(self, scheduler, steps, denoise=1.0):
        """A scheduler's sigmas: the last `steps` of a longer run where that begins in the middle."""
        if denoise >= 1.0:
            return self._scheduled(scheduler, steps)
        top = self.top(denoise)
        for total in range(steps, 100 * steps):
            below = [level for level in self._scheduled(scheduler, total) if level < top * (1.0 - 1e-4)]
            if len(below) >= steps:
                return [top, *below[-steps:]]
        raise ValueError(f"DyWeight: denoise {denoise:g} leaves no room for {steps} steps of {scheduler}")

    def _scheduled(self, scheduler, steps):
        return [float(level) for level in comfy.samplers.calculate_sigmas(self.sampling, scheduler, steps)]


def learn(runs, options):
    """Learns, and judges what was learned."""
    return _Job(runs, options).found()


def most_evaluations(options):
    """Evaluations that learning may need; most runs end earlier."""
    steps, pairs, held = options.steps, options.pairs, options.held
    parameters = sum(min(i + 1, ORDER) for i in range(steps + 1)) + steps
    handcrafted = ((3 + len(NAMES)) * len(SCHEDULERS) + 2) * min(FEW, pairs) + 3 * pairs
    rivals = len(NAMES) * (len(SCHEDULERS) * min(FEW, pairs) + held)
    solves = most_solves(ITERATIONS, parameters, pairs, held) + handcrafted + rivals + held
    return (pairs + 2 * held) * options.reference_steps + solves * steps


class _Job:
    """One solver's way from its start to the judgement. It is what the optimiser asks for residuals."""

    def __init__(self, runs, options):
        self.runs, self.options = runs, options
        if options.denoise < 1.0 and not torch.count_nonzero(runs.samples):
            raise ValueError(f"DyWeight: denoise {options.denoise:g} begins at a picture, but the latent is empty")
        first, pairs, held = options.seed, options.pairs, options.held
        self.seeds = {
            "training": range(first, first + pairs),
            "validation": range(first + 100_000, first + 100_000 + held),
            "test": range(first + 200_000, first + 200_000 + held),
        }
        self.targets, self.start = {}, None

    def found(self):
        begun = time.perf_counter()
        for seed in itertools.chain(*self.seeds.values()):
            self.targets[seed] = self._reference(seed)
        self.start = self._best_start()
        optimiser = GaussNewton(self._first(), self, ITERATIONS)
        while not optimiser.is_finished:
            optimiser.advance()
        record = self._record(list(optimiser.best))
        distances, settings, notes = self._rivals()
        distances[LEARNED] = self._rms(lambda seed: self._solved(record, seed), self.seeds["test"])
        validation = (math.sqrt(optimiser.initial_validation), math.sqrt(optimiser.best_validation))
        facts = {
            "tool": "ComfyUI", "reference": f"{REFERENCE}, {LONG[self.runs.flow]}", "pairs": self.options.pairs,
            "reference_steps": self.options.reference_steps, "first_seed": self.options.seed, "cfg": self.runs.cfg,
            "denoise": self.options.denoise, "start": self.start.name, "validation": list(validation),
            "distances": dict(distances), "latent": list(self.runs.samples.shape),
        }  # fmt: skip
        record["training"] = facts
        evaluations, seconds = self.runs.evaluations, time.perf_counter() - begun
        return Found(record, distances, settings, self.start.name, validation, notes, evaluations, seconds)

    # --- runs and their distances ---

    def _reference(self, seed):
        o = self.options
        levels = self.runs.levels(LONG[self.runs.flow], o.reference_steps, o.denoise)
        end = self.runs.end(comfy.samplers.sampler_object(REFERENCE), levels, seed)
        if not np.isfinite(end).all() or not end.any():
            what = f"{REFERENCE} with {o.reference_steps} steps"
            raise FloatingPointError(f"DyWeight: {what} has diverged at seed {seed}")
        return end

    def _solved(self, record, seed):
        """Where a solver ends; None where it cannot be run or diverges."""
        try:
            solver = SolverFile(record)
        except SolverFileError:
            return None
        return self.runs.end(DyWeightSampler(solver, None), solver.run_sigmas, seed, solver.calls)

    def _residual(self, end, seed):
        """End minus reference as a share of the reference's size."""
        target = self.targets[seed]
        if end is None or not np.isfinite(end).all():
            return None
        return (end - target) / np.float32(np.sqrt(np.mean(np.square(target, dtype=np.float64))))

    def _rms(self, end, seeds):
        residuals = [self._residual(end(seed), seed) for seed in seeds]
        if any(r is None for r in residuals):
            return math.inf
        return math.sqrt(sum(float(np.mean(np.square(r, dtype=np.float64))) for r in residuals) / len(residuals))

    # --- where learning begins ---

    def _best_start(self):
        """Of the handcrafted solvers: all on a few noises, the best of these on all."""
        training, found = self.seeds["training"], []
        for start in _starts(self.runs, self.options):
            found.append((self._of_start(start, training[:FEW]), start))
        best = sorted(found, key=lambda item: item[0])[:3]
        if len(training) > FEW:
            best = sorted(((self._of_start(start, training), start) for _, start in best), key=lambda item: item[0])
        if not best or math.isinf(best[0][0]):
            raise FloatingPointError(f"DyWeight: no solver of {self.options.steps} steps runs without diverging here")
        return best[0][1]

    def _of_start(self, start, seeds):
        record = _record(start, self.runs)
        return self._rms(lambda seed: self._solved(record, seed), seeds)

    # --- what the optimiser asks for ---

    def pairs(self, split):
        return len(self.seeds[split])

    def residuals(self, candidates, split, pair):
        seed = self.seeds[split][pair]
        return [self._residual(self._solved(self._record(list(c)), seed), seed) for c in candidates]

    def _first(self):
        rows = self.start.weights
        return [*itertools.chain(*rows), *[1.0] * (len(rows) - int(self.start.afs))]

    def _record(self, parameters):
        numbers = iter(map(float, parameters))
        rows = [list(itertools.islice(numbers, len(row))) for row in self.start.weights]
        return _record(Start(self.start.name, self.start.sigmas, rows, self.start.afs), self.runs, list(numbers))

    # --- the judgement ---

    def _rivals(self):
        """ComfyUI's own samplers at equal steps: distances on fresh noise, their schedulers, what could not run."""
        distances, settings, notes = {}, {}, []
        for name in NAMES:
            found = []
            for scheduler in SCHEDULERS:
                try:
                    distance = self._of_rival(name, scheduler, self.seeds["training"][:FEW])
                except (ValueError, IndexError, AssertionError, ZeroDivisionError, TypeError) as error:
                    notes.append(f"{name} with {scheduler} does not run here: {error}")
                    continue
                found += [(distance, scheduler)] if math.isfinite(distance) else []
            if found:
                settings[name] = min(found)[1]
                distances[name] = self._of_rival(name, settings[name], self.seeds["test"])
        return distances, settings, notes

    def _of_rival(self, name, scheduler, seeds):
        sigmas = _sigmas(self.runs, name, scheduler, self.options)
        if not fall(sigmas):
            return math.inf
        return self._rms(lambda seed: self.runs.end(comfy.samplers.sampler_object(name), sigmas, seed), seeds)


def _sigmas(runs, name, scheduler, options):
    return sigmas_of(name, lambda steps: runs.levels(scheduler, steps, options.denoise), options.steps)


def _starts(runs, options):
    """Handcrafted solvers of so many evaluations on the grids of ComfyUI's schedulers, each once."""
    seen, made = set(), []
    for scheduler in SCHEDULERS:
        grid = runs.levels(scheduler, options.steps, options.denoise)
        if fall(grid):
            made.append(second_order_multistep(f"2M, {scheduler}", grid, runs.flow))
            made += [adams(f"Adams–Bashforth {k}, {scheduler}", grid, k) for k in (2, 3)]
        own = {name: _sigmas(runs, name, scheduler, options) for name in NAMES}
        made += [as_weights(name, f"{name}, {scheduler}", sigmas) for name, sigmas in own.items() if fall(sigmas)]
    if options.denoise >= 1.0:
        # The first slope from the noise itself: a step more for as many evaluations.
        for scheduler in (LONG[runs.flow], "normal"):
            grid = runs.levels(scheduler, options.steps + 1)
            if fall(grid):
                start = second_order_multistep(f"2M after an analytical step, {scheduler}", grid, runs.flow)
                made.append(Start(start.name, start.sigmas, start.weights, afs=True))
    for start in filter(None, made):
        key = tuple(round(v, 6) for v in (*start.sigmas, *itertools.chain(*start.weights)))
        if key not in seen:
            seen.add(key)
            yield start.window(ORDER)


def _record(start, runs, scales=None):
    """A solver file's content."""
    steps = len(start.weights)
    evaluations = steps - int(start.afs)
    guided = not math.isclose(runs.cfg, 1.0)
    return {
        "format": "dyweight-solver", "version": 2, "method": "dyweight", "nfe": evaluations * (2 if guided else 1),
        "steps": steps, "afs": start.afs, "prediction": "velocity" if runs.flow else "denoised", "bounded": False,
        "schedule": {"kind": "explicit", "sigmas": start.sigmas},
        "sigma_min": start.sigmas[-1], "sigma_max": start.sigmas[0],
        "body": {
            "order": max(map(len, start.weights)), "time_shift": True, "weights": start.weights,
            "time_scale": [1.0] * evaluations if scales is None else scales,
        },
        "model": {"name": type(getattr(runs.model, "model", runs.model)).__name__},
        **({"guidance": runs.cfg} if guided else {}),
    }  # fmt: skip
