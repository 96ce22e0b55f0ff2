"""A scheduler for Hugging Face diffusers that samples with a learned solver (DyWeight, CVPR 2026, Algorithm 2).

    pipe.scheduler = DyWeightScheduler.from_file("solver.json", pipe.scheduler.config)
    image = pipe("a red bicycle", num_inference_steps=pipe.scheduler.calls).images[0]

ε, v and data predictions on a discrete noise table (Stable Diffusion, SDXL) and flows (FLUX, SD 3 and others).
The state is x = x₀ + σn, for flows x = (1−σ)x₀ + σn. State and slopes are kept in f32 whatever the pipeline's dtype.
The network is told real-valued timesteps.

This file also works when copied alone (under a name other than diffusers.py); presets and `train_pipeline` then need
the installed package. Documentation: docs/diffusers.md.
"""

import importlib
import inspect
import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from diffusers.utils import BaseOutput, logging

logger = logging.get_logger(__name__)

# --- solver file: the lines of dyweight/solver_file.py, kept equal by python/copies.py ---

FORMAT, VERSIONS = "dyweight-solver", (1, 2, 3)
# The released code's guard of the division by T.
GUARD = 1e-8


class SolverFileError(ValueError):
    """A solver file that cannot be used, and why."""


class SolverFile:
    """A learned solver: `weights`, `time_scale`, the nominal levels `sigmas` (σ_0 … σ_S), the realised `times`
    (T_0 … T_S) and the `levels` told to the network (None at an analytical first step)."""

    def __init__(self, record):
        """From the content of a file, checked. What is derived is derived anew."""
        body = _body(record)
        self.record = record
        self.steps, self.nfe = _count(body, "steps"), _count(body, "nfe")
        self.afs, self.time_shift = _flag(body, "afs"), _flag(body, "time_shift", True)
        self.prediction = body.get("prediction")
        if self.prediction not in ("denoised", "velocity"):
            raise SolverFileError(f"prediction is {self.prediction!r}, neither 'denoised' nor 'velocity'")
        rows = body.get("weights")
        if not isinstance(rows, (list, tuple)):
            raise SolverFileError("weights is not a list of rows")
        self.weights = [_numbers(row, f"weights of step {i}") for i, row in enumerate(rows)]
        self.time_scale = _numbers(body.get("time_scale"), "time_scale")
        self._check_shapes(body)
        ends = [_number(body.get(name), name) for name in ("sigma_min", "sigma_max")]
        self.sigmas = _grid(body.get("schedule"), self.steps, *ends)
        self.times = self._realised_times()
        self.levels = [self._level(i) for i in range(self.steps)]
        if not all(math.isfinite(t) for t in self.times):
            raise SolverFileError("the weights lead to times that are no numbers")

    @classmethod
    def load(cls, path):
        """Reads a file."""
        try:
            with open(path, encoding="utf-8") as file:
                return cls(json.load(file, parse_constant=_refuse_constant))
        except (SolverFileError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise SolverFileError(f"{path}: {error}") from error

    @property
    def calls(self):
        """Network evaluations of one sample; under guidance each is two calls."""
        return self.steps - int(self.afs)

    @property
    def run_sigmas(self):
        """Where the states of a run are, T_0 … T_{S−1}, and the nominal end. The last state counts as finished:
        training compared it with the teacher's result, wherever the weights' sums say it is."""
        return [*self.times[:-1], self.sigmas[-1]]

    @property
    def analytic_slope(self):
        """dx/dσ divided by x at the first level, for data of mean 0 and variance 1."""
        t = self.times[0]
        if self.prediction == "denoised":
            return 1.0 / math.sqrt(1.0 + t * t)
        r = math.hypot(1.0 - t, t)
        return 2.0 * t / (r * (1.0 + r))

    def length(self, i):
        """Step i is this times the weighted slopes."""
        return self.sigmas[i + 1] - self.times[i]

    def row(self, i, known):
        """Weights of step i, newest last, when only `known` slopes are there. A run that starts in the middle takes
        older slopes as equal to the oldest it has, so that the sum, and with it the time, stays what was learned."""
        row = self.weights[i]
        missing = max(len(row) - known, 0)
        return [sum(row[: missing + 1]), *row[missing + 1 :]]

    def _realised_times(self):
        times = self.sigmas[:1]
        for i, row in enumerate(self.weights):
            shifted = times[i] + (self.sigmas[i + 1] - times[i]) * sum(row)
            times.append(shifted if self.time_shift else self.sigmas[i + 1])
        return times

    def _level(self, i):
        if self.afs and i == 0:
            return None
        k = i - (self.steps - len(self.time_scale))
        return abs((self.time_scale[k] if k >= 0 else 1.0) * self.times[i])

    def _check_shapes(self, body):
        if self.steps < 1 or len(self.weights) != self.steps:
            raise SolverFileError(f"{len(self.weights)} rows of weights for {self.steps} steps")
        for i, row in enumerate(self.weights):
            if not 1 <= len(row) <= i + 1:
                raise SolverFileError(f"step {i} has {len(row)} weights; it can weigh 1 to {i + 1} slopes")
        window = max(map(len, self.weights))
        if _count(body, "order") != window:
            raise SolverFileError(f"order is {body['order']}, but the longest row has {window} weights")
        if len(self.time_scale) not in (0, self.steps - 1, self.steps):
            raise SolverFileError(f"{len(self.time_scale)} time scales for {self.steps} steps")
        if self.nfe not in (self.calls, 2 * self.calls):
            raise SolverFileError(f"nfe is {self.nfe}, but the steps make {self.calls} calls, or twice that")


class NoiseTable:
    """σ of the timesteps 0 … M−1 of a discrete model: ln α is linear between them, and beyond both ends.

    σ = √(1−α²)/α,  ln α = −½ ln(1+σ²)
    """

    def __init__(self, log_alphas):
        self.log_alphas = list(log_alphas)

    @classmethod
    def scaled_linear(cls, beta_start, beta_end, count=1000):
        """β_j = (√β_s + j/(M−1)·(√β_e − √β_s))²."""
        start, end = math.sqrt(beta_start), math.sqrt(beta_end)
        product, log_alphas = 1.0, []
        for j in range(count):
            product *= 1.0 - (start + j / (count - 1) * (end - start)) ** 2
            log_alphas.append(0.5 * math.log(product))
        return cls(log_alphas)

    def sigma(self, timestep):
        """σ of a real timestep."""
        left = min(max(math.floor(timestep), 0), len(self.log_alphas) - 2)
        a, b = self.log_alphas[left : left + 2]
        return math.sqrt(math.expm1(-2.0 * (a + (timestep - left) * (b - a))))

    def timestep(self, sigma):
        """The real timestep of σ."""
        log_alpha = -0.5 * math.log1p(sigma * sigma)
        low, high = 0, len(self.log_alphas)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.log_alphas[middle] > log_alpha else (low, middle)
        right = min(max(low, 1), len(self.log_alphas) - 1)
        a, b = self.log_alphas[right - 1 : right + 1]
        return right - 1 + (log_alpha - a) / (b - a)


NOISE_TABLES = {"sd15": (0.00085, 0.0120), "lsun-ldm": (0.0015, 0.0195)}


def _body(record):
    """The part of a record that says the method, whatever the version."""
    if not isinstance(record, dict):
        raise SolverFileError("a solver file is a JSON object")
    if record.get("format") != FORMAT:
        raise SolverFileError(f"format is {record.get('format')!r}, not {FORMAT!r}")
    if record.get("version") not in VERSIONS:
        known = ", ".join(map(str, VERSIONS))
        raise SolverFileError(f"version {record.get('version')!r} is not one this reader knows ({known})")
    if record.get("method") != "dyweight":
        raise SolverFileError(f"method {record.get('method')!r} is not known")
    if record["version"] == 1:
        return record
    if not isinstance(record.get("body"), dict):
        raise SolverFileError("body is not a JSON object")
    span = record["body"].get("span")
    if span:
        # Bands and convolutions are no weighted sums of slopes, and nothing else is done here.
        parts = ", ".join(map(str, span)) if isinstance(span, dict) else repr(span)
        use = "use dyweight.sample or 'dyweight sample', or train without a span"
        raise SolverFileError(f"the solver has a wider span ({parts}), which this sampler does not have: {use}")
    return {**record, **record["body"]}


def _refuse_constant(name):
    raise SolverFileError(f"{name} is not a number")


def _number(value, name):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SolverFileError(f"{name} is {value!r}, not a finite number")
    return float(value)


def _numbers(values, name):
    if not isinstance(values, (list, tuple)):
        raise SolverFileError(f"{name} is not a list of numbers")
    return [_number(value, name) for value in values]


def _count(body, name):
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100_000:
        raise SolverFileError(f"{name} is {value!r}, not a count")
    return value


def _flag(body, name, default=None):
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise SolverFileError(f"{name} is {value!r}, neither true nor false")
    return value


def _grid(schedule, steps, sigma_min, sigma_max):
    """The nominal levels σ_0 > … > σ_S of a rule."""
    kind = schedule.get("kind") if isinstance(schedule, dict) else None
    if kind == "explicit":
        return _falling(_numbers(schedule.get("sigmas"), "sigmas"), steps)
    if kind == "flow":
        shift = _number(schedule.get("shift"), "shift")
        if shift <= 0:
            raise SolverFileError(f"shift is {shift}, not above 0")
        shifted = [u / (u + (1.0 - u) / shift) for u in (1.0 - i / steps for i in range(1, steps + 1))]
        return _falling([1.0, *shifted], steps)
    if not 0 < sigma_min < sigma_max:
        raise SolverFileError(f"sigma_min = {sigma_min} and sigma_max = {sigma_max} are no range")
    rho = 1.0 if kind == "logsnr" else _number((schedule or {}).get("rho") if kind else None, "rho of the schedule")
    if not 0.01 <= rho <= 1000:
        raise SolverFileError(f"rho is {rho}, not between 0.01 and 1000")
    if kind == "karras":
        sigmas = _powers(sigma_max, sigma_min, steps, rho)
    elif kind == "logsnr":
        sigmas = [math.exp(v) for v in _powers(math.log(sigma_max), math.log(sigma_min), steps, 1.0)]
    elif kind == "time-uniform":
        sigmas = _vp_sigmas(sigma_min, sigma_max, steps, rho)
    elif kind == "discrete" and schedule.get("table") in NOISE_TABLES:
        table = NoiseTable.scaled_linear(*NOISE_TABLES[schedule["table"]])
        ends = ((table.timestep(s) + 1.0) / 1000.0 for s in (sigma_max, sigma_min))
        sigmas = [table.sigma(1000.0 * u - 1.0) for u in _powers(*ends, steps, rho)]
    else:
        raise SolverFileError(f"schedule {schedule!r} is not known")
    return _falling([sigma_max, *sigmas[1:-1], sigma_min], steps)


def _powers(start, end, steps, rho):
    """(a^{1/ρ} + u(b^{1/ρ} − a^{1/ρ}))^ρ for u = 0 … 1."""
    a, b = (start, end) if rho == 1.0 else (start ** (1.0 / rho), end ** (1.0 / rho))
    line = [a + i / steps * (b - a) for i in range(steps + 1)]
    return line if rho == 1.0 else [v**rho for v in line]


def _vp_sigmas(sigma_min, sigma_max, steps, rho, epsilon=1e-3):
    """Levels at powers of the time of a variance-preserving process: σ² = exp(β_d t²/2 + β_min t) − 1, fitted to the
    range at t = ε and t = 1."""
    low, high = math.log1p(sigma_min**2), math.log1p(sigma_max**2)
    beta_d = 2.0 * (low / epsilon - high) / (epsilon - 1.0)
    beta_min = high - beta_d / 2.0
    if not (beta_min + beta_d * epsilon > 0 and beta_min + beta_d > 0):
        raise SolverFileError(f"sigma_min = {sigma_min} is too large for the time-uniform rule up to {sigma_max}")
    return [math.sqrt(math.expm1(beta_d * t * t / 2 + beta_min * t)) for t in _powers(1.0, epsilon, steps, rho)]


def _falling(sigmas, steps):
    if len(sigmas) != steps + 1:
        raise SolverFileError(f"{len(sigmas)} levels for {steps} steps; there must be one more than steps")
    for i, (left, right) in enumerate(itertools.pairwise(sigmas)):
        if not left > right:
            raise SolverFileError(f"the levels must fall, but level {i} is {left} and the next {right}")
    if sigmas[-1] < 0:
        raise SolverFileError(f"the last level is {sigmas[-1]}, below 0")
    return sigmas


# --- end of solver file ---


@dataclass
class DyWeightSchedulerOutput(BaseOutput):
    """The next state, and the data prediction it was made with."""

    prev_sample: torch.Tensor
    pred_original_sample: torch.Tensor | None = None


class DyWeightScheduler(SchedulerMixin, ConfigMixin):
    """Samples with a learned solver. Its number of steps is the solver's: `num_inference_steps` must be `calls`.

    The configuration is the solver file's content and the model's noise table, so saving and loading keep both.
    """

    order = 1

    @register_to_config
    def __init__(
        self,
        solver: dict | None = None,
        prediction_type: str | None = None,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.0001,
        beta_end: float = 0.02,
        beta_schedule: str = "linear",
        trained_betas: list | None = None,
        rescale_betas_zero_snr: bool = False,
        use_flow_sigmas: bool = False,
    ):
        if solver is None:
            raise ValueError("no solver: use DyWeightScheduler.from_file(path, pipe.scheduler.config) or from_preset")
        self.solver = SolverFile(solver)
        self._flow = self.solver.prediction == "velocity"
        self._prediction = _prediction_type(prediction_type, self._flow)
        # Pipelines that see use_flow_sigmas leave the grid to the scheduler.
        self.register_to_config(prediction_type=self._prediction, use_flow_sigmas=self._flow)
        if not self._flow:
            betas = _betas(beta_schedule, beta_start, beta_end, num_train_timesteps, trained_betas)
            self._table = _noise_table(betas, rescale_betas_zero_snr)
        # An analytical first step is part of the initial noise: loop index j is step j + 1 of the solver.
        self._first = int(self.solver.afs)
        if self.calls == 0:
            raise ValueError("this solver is an analytical step alone and calls no network")
        self._begin_index = None
        self._start_is_scaled = False
        self.set_timesteps(self.calls)
        self._warn_beyond_table()

    @classmethod
    def from_file(cls, path, config=None, **options):
        """A scheduler from a solver file. `config` is the configuration of the pipeline's own scheduler, which says
        what the network predicts and on which noise table. Without it a solver on a named noise table brings its own;
        `options` override."""
        return cls._from_solver(SolverFile.load(path), config, options)

    @classmethod
    def from_preset(cls, name, config=None, **options):
        """A scheduler from a released set of coefficients: 'ms-coco-nfe16', 'flux-nfe7', …"""
        try:
            presets = importlib.import_module("dyweight.presets")
        except ImportError as error:
            hint = (
                "install the package dyweight, or write one with 'dyweight convert preset:NAME FILE' and use from_file"
            )
            raise ImportError(f"presets come with the package: {hint}") from error
        return cls._from_solver(presets.preset(name), config, options)

    @classmethod
    def _from_solver(cls, solver, config, options):
        if config is None:
            return cls(**{"solver": solver.record, **_own_table(solver, options), **options})
        model_is_flow = _is_flow(config)
        if model_is_flow != (solver.prediction == "velocity"):
            kinds = {True: "a flow", False: "a noise table"}
            message = f"the solver was learned for {kinds[solver.prediction == 'velocity']}"
            raise ValueError(f"{message}, but the pipeline's model is trained on {kinds[model_is_flow]}")
        mine = inspect.signature(cls.__init__).parameters
        known = {key: value for key, value in config.items() if key in mine}
        scheduler = cls(**{**known, "solver": solver.record, **options})
        # Pipelines read some of the rest (FLUX: base_shift), and a later change of scheduler needs it back.
        scheduler.register_to_config(**{k: v for k, v in config.items() if k not in mine and not k.startswith("_")})
        return scheduler

    @property
    def calls(self) -> int:
        """Network evaluations of one sample: what `num_inference_steps` must be."""
        return self.solver.calls

    @property
    def init_noise_sigma(self) -> float:
        """Factor on the unit noise at the start. It includes an analytical first step, which scales the noise."""
        self._start_is_scaled = True
        return self.solver.times[0] * (self._analytic_growth() if self.solver.afs else 1.0)

    def initial_latents(self, noise):
        """The state at the first network call from unit noise. For flow pipelines, which pass their noise to the
        network as it is: with a solver that has an analytical first step, pass `latents=scheduler.initial_latents(…)`."""
        return noise * self.init_noise_sigma

    def _analytic_growth(self):
        """x_1 = x_0·(1 + δ_0·w_0·c), with d_0 = c·x_0."""
        return 1.0 + self.solver.length(0) * self.solver.weights[0][0] * self.solver.analytic_slope

    @property
    def step_index(self):
        """Index of the network call that is next; None before the first."""
        return self._step_index

    @property
    def begin_index(self):
        """Index of the first call, where a pipeline set it."""
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0):
        """Starts in the middle (image to image)."""
        self._begin_index = begin_index

    def set_timesteps(self, num_inference_steps=None, device=None, sigmas=None, mu=None):
        """Prepares a run. `sigmas` and `mu` are what flow pipelines offer; the grid is the solver's."""
        if sigmas is not None:
            self._check_offered(sigmas)
            num_inference_steps = len(sigmas) if num_inference_steps is None else num_inference_steps
        if num_inference_steps != self.calls:
            counted = f" (nfe {self.solver.nfe} with guidance)" if self.solver.nfe != self.calls else ""
            raise ValueError(
                f"this solver has {self.calls} network evaluations{counted}: num_inference_steps must be {self.calls},"
                f" not {num_inference_steps}"
            )
        self._warn_other_shift(mu)
        self.num_inference_steps = num_inference_steps
        timesteps = [self._timestep(level) for level in self.solver.levels[self._first :]]
        self.timesteps = torch.tensor(timesteps, dtype=torch.float32, device=device)
        self.sigmas = torch.tensor(self.solver.run_sigmas[self._first :], dtype=torch.float32)
        self._step_index, self._begin_index = None, None
        self._slopes, self._state, self._returned = [], None, None

    def _timestep(self, level):
        return level * self.config.num_train_timesteps if self._flow else self._table.timestep(level)

    def scale_model_input(self, sample, timestep=None):
        """What the network is shown: x/√(1 + level²), for flows x."""
        if self._step_index is None:
            self._step_index = self._index_of_run(timestep)
        if self._flow:
            return sample
        level = self.solver.levels[self._step_index + self._first]
        return (sample.to(_precise(sample)) / math.sqrt(1.0 + level * level)).to(sample.dtype)

    def step(self, model_output, timestep, sample, generator=None, return_dict: bool = True):
        """One step of the solver from the network's output at `sample`."""
        if self._step_index is None:
            self._step_index = self._index_of_run(timestep)
        i = self._step_index + self._first
        x = self._recall(sample)
        if self._state is None:
            self._begin(x, i)
        slope = self._slope(model_output.to(x.dtype), x, i)
        self._slopes.append(slope)
        row = self.solver.row(i, len(self._slopes))
        length = self.solver.length(i)
        following = x
        for weight, past in zip(row, self._slopes[-len(row) :]):
            following = following + (length * weight) * past
        self._slopes = self._slopes[-max(map(len, self.solver.weights)) :]
        self._state, self._returned = following, following.to(sample.dtype)
        self._step_index += 1
        if not return_dict:
            return (self._returned,)
        denoised = (x - self.solver.times[i] * slope).to(sample.dtype)
        return DyWeightSchedulerOutput(prev_sample=self._returned, pred_original_sample=denoised)

    def _begin(self, x, i):
        """The analytical slope of step 0 follows from the state it led to."""
        if not (self._first and i == 1):
            return
        if not self._start_is_scaled:
            raise ValueError(
                "this solver's analytical first step scales the initial noise, which this pipeline does not do by itself:"
                " pass latents=pipe.scheduler.initial_latents(noise)"
            )
        self._start_is_scaled = False
        self._slopes = [x * (self.solver.analytic_slope / self._analytic_growth())]

    def _slope(self, output, x, i):
        """dx/dσ from what the network said at `level` about a state at T."""
        if self._flow:
            return output
        level, time = self.solver.levels[i], self.solver.times[i]
        if self._prediction == "epsilon":
            return output * (level / (time + GUARD))
        if self._prediction == "v_prediction":
            output = x / (1.0 + level * level) - output * (level / math.sqrt(1.0 + level * level))
        return (x - output) / (time + GUARD)

    def _recall(self, sample):
        """The state in full precision, but for what a pipeline changed (inpainting, callbacks)."""
        x = sample.to(_precise(sample))
        if self._returned is None or self._returned.shape != sample.shape or self._returned.dtype != sample.dtype:
            return x
        return torch.where(sample == self._returned.to(sample.device), self._state.to(sample.device), x)

    def add_noise(self, original_samples, noise, timesteps):
        """Clean data with the noise of the state at which the network is told `timesteps`."""
        times = [self.solver.times[self.index_for_timestep(t) + self._first] for t in timesteps.flatten()]
        dtype = _precise(original_samples)
        shape = (-1,) + (1,) * (original_samples.ndim - 1)
        time = torch.tensor(times, dtype=dtype, device=original_samples.device).reshape(shape)
        signal = 1.0 - time if self._flow else 1.0
        self._start_is_scaled = True
        return (signal * original_samples.to(dtype) + time * noise.to(dtype)).to(original_samples.dtype)

    def scale_noise(self, sample, timestep, noise):
        """`add_noise`, as flow pipelines call it."""
        return self.add_noise(sample, noise, timestep)

    def index_for_timestep(self, timestep) -> int:
        """Index of the call whose timestep is nearest."""
        return int((self.timesteps - torch.as_tensor(timestep).to(self.timesteps)).abs().argmin())

    def _index_of_run(self, timestep):
        return self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index

    def _check_offered(self, sigmas):
        """Flow pipelines offer a uniform grid by default. Any other is a wish this solver cannot grant."""
        offered = torch.as_tensor(sigmas, dtype=torch.float64).flatten()
        count = len(offered)
        default = torch.linspace(1.0, 1.0 / count, count, dtype=torch.float64)
        if count == self.calls and not torch.allclose(offered, default, atol=1e-3):
            raise ValueError("sigmas cannot be chosen: the grid belongs to the solver")

    def _warn_other_shift(self, mu):
        schedule = self.solver.record.get("schedule", {})
        if mu is None or schedule.get("kind") != "flow" or abs(math.log(schedule["shift"]) - mu) < 0.01:
            return
        logger.warning(
            f"the solver was learned for a time shift of mu = {math.log(schedule['shift']):.3f}; for this image size the"
            f" pipeline would use {mu:.3f}. The solver's own grid is used."
        )

    def _warn_beyond_table(self):
        if self._flow:
            return
        top, first = self._table.sigma(self.config.num_train_timesteps - 1), self.solver.sigmas[0]
        if first > 1.05 * top:
            logger.warning(f"the solver starts at level {first:.4g}, but the model's noise table ends at {top:.4g}")

    def __len__(self):
        return self.config.num_train_timesteps


def train_pipeline(pipe: Any, prompts, nfe: int, guidance_scale: float | None = None, **options):
    """Learns a solver for a pipeline's own network, on its device, and sets the scheduler. See dyweight.pipeline."""
    try:
        pipeline = importlib.import_module("dyweight.pipeline")
    except ImportError as error:
        raise ImportError("training needs the package dyweight") from error
    return pipeline.train_pipeline(pipe, prompts, nfe, guidance_scale, **options)


def _precise(tensor):
    return torch.promote_types(tensor.dtype, torch.float32)


def _is_flow(config):
    """Whether a scheduler's configuration is that of a flow; flow matching's own schedulers have no noise table."""
    says_so = config.get("prediction_type") == "flow_prediction" or bool(config.get("use_flow_sigmas"))
    return says_so or ("shift" in config and "beta_start" not in config)


def _prediction_type(given, flow):
    known = ("flow_prediction",) if flow else ("epsilon", "v_prediction", "sample")
    if given is None:
        return known[0]
    if given not in known:
        kind = "a flow" if flow else "a noise table"
        raise ValueError(f"prediction_type is {given!r}, but a solver learned for {kind} needs {' or '.join(known)}")
    return given


def _own_table(solver, options):
    """Noise table of a solver on the discrete rule; flows need none."""
    if solver.prediction == "velocity" or "beta_start" in options or "trained_betas" in options:
        return {}
    name = solver.record["schedule"].get("table")
    if name is None:
        raise ValueError(
            "the solver does not say the model's noise table: pass the configuration of the pipeline's scheduler,"
            " from_file(path, pipe.scheduler.config)"
        )
    start, end = NOISE_TABLES[name]
    return {"beta_start": start, "beta_end": end, "beta_schedule": "scaled_linear"}


def _betas(schedule, start, end, count, trained):
    """The table of a diffusers configuration, in f64."""
    if trained is not None:
        return torch.tensor(trained, dtype=torch.float64)
    if schedule == "linear":
        return torch.linspace(start, end, count, dtype=torch.float64)
    if schedule == "scaled_linear":
        return torch.linspace(math.sqrt(start), math.sqrt(end), count, dtype=torch.float64) ** 2
    if schedule == "squaredcos_cap_v2":
        u = torch.arange(count + 1, dtype=torch.float64) / count
        alpha_bar = torch.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2
        return (1.0 - alpha_bar[1:] / alpha_bar[:-1]).clamp(max=0.999)
    known = "linear, scaled_linear and squaredcos_cap_v2"
    raise ValueError(f"beta_schedule {schedule!r} is not known; those known are {known}")


def _noise_table(betas, zero_terminal):
    alphas = torch.cumprod(1.0 - betas, dim=0).sqrt()
    if zero_terminal:
        # Lin et al. 2024, Algorithm 1; the last level, which would be infinite, is the 2⁻²⁴ that diffusers puts there.
        alphas = (alphas - alphas[-1]) * (alphas[0] / (alphas[0] - alphas[-1]))
        alphas[-1] = 2.0**-12
    return NoiseTable(alphas.log().tolist())
