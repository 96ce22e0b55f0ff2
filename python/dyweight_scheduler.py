"""The scheduler of the package dyweight in one file, to stand beside a script. Written by python/copies.py."""

from __future__ import annotations

# --- solver_file.py ---

"""Solver files: a learned solver as numbers, read with the standard library alone.

The format is documented in docs/solver-file.md. Everything a sampler needs follows from it:

    T_0 = σ_0
    at step i:  level_i = |s_i·T_i|                    what the network is told
                d_i     = (x − D(x, level_i))/(T_i + 10⁻⁸)     flows: v(x, level_i)
                x      += (σ_{i+1} − T_i)·Σ_k w_k·d_{i−n+1+k}
                T_{i+1} = T_i + (σ_{i+1} − T_i)·Σ_k w_k

With the analytical first step d_0 is x times a number (`analytic_slope`), and no network is called.
"""

import itertools
import json
import math

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

# --- identity.py ---

"""What something is, by its content: for results that are kept and must not be taken for those of something else."""


import dataclasses
import hashlib
from typing import Any


#: Weights of up to so many numbers are taken as a whole.
WHOLE = 1_000_000


def digest(*values: Any) -> str:
    """A short name for the content of all values: tensors, arrays, pictures, containers and whatever is plain."""
    found = hashlib.sha256()
    for value in values:
        _feed(found, value)
    return found.hexdigest()[:24]


def _feed(found: Any, value: Any) -> None:
    found.update(type(value).__name__.encode() + b"\0")
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        found.update(repr(value).encode())
    elif isinstance(value, bytes):
        found.update(value)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            _feed(found, key)
            _feed(found, value[key])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            _feed(found, item)
    else:
        _feed_array(found, value)


def _feed_array(found: Any, value: Any) -> None:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        found.update(f"{value.dtype} {tuple(value.shape)}".encode())
        found.update(value.contiguous().flatten().view(_bytes_of(value)).numpy().tobytes())
    elif hasattr(value, "tobytes"):
        found.update(f"{getattr(value, 'shape', getattr(value, 'size', ''))} {getattr(value, 'mode', '')}".encode())
        found.update(value.tobytes())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _feed(found, {f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    else:
        raise TypeError(f"{type(value).__name__} cannot be told by its content: leave the cache out, or pass something plain")


def _bytes_of(tensor: Any) -> Any:
    import torch

    return torch.uint8 if tensor.element_size() else tensor.dtype


def weights(pipe: Any) -> list[Any]:
    """Every weight: small ones whole, of large ones names, shapes and some values."""
    return [(name, _sketch(part)) for name, part in sorted(parts(pipe).items())]


def networks(pipe: Any) -> list[Any]:
    """The same of the networks that a solver belongs to: decoders and text encoders may be exchanged."""
    apart = ("vae", "encoder", "safety", "vocoder", "image_processor")
    return [(name, sketch) for name, sketch in weights(pipe) if not any(word in name for word in apart)]


def parts(pipe: Any) -> dict[str, Any]:
    """The networks of a pipeline."""
    import torch

    named = getattr(pipe, "components", None) or vars(pipe)
    return {name: part for name, part in named.items() if isinstance(part, torch.nn.Module)}


def _sketch(network: Any) -> list[Any]:
    """Of each weight its content, of one beyond a million numbers its shape and some values, evenly."""
    found = []
    for name, value in network.state_dict().items():
        if not hasattr(value, "flatten") or getattr(value, "is_meta", False):
            found.append((name, str(getattr(value, "shape", ""))))
            continue
        if value.numel() <= WHOLE:
            found.append((name, digest(value)))
            continue
        flat = value.detach().flatten()
        stride = flat.numel() // 256
        found.append((name, tuple(value.shape), [str(v) for v in flat[::stride][:257].cpu().tolist()]))
    return found


def settings(pipe: Any) -> list[Any]:
    """What a pipeline is set to beside its weights: plain values of its configuration, and strengths of its adapters."""
    plain = {k: v for k, v in dict(getattr(pipe, "config", {})).items() if isinstance(v, (bool, int, float, str))}
    modules = (module for part in parts(pipe).values() for module in part.modules())
    strengths = [dict(m.scaling) for m in modules if isinstance(getattr(m, "scaling", None), dict)]
    return [{k: v for k, v in plain.items() if not k.startswith("_")}, strengths, adapters(pipe)]


def adapters(pipe: Any) -> list[str]:
    """Names of the adapters (LoRA) that the pipeline's networks are loaded with."""
    names: set[str] = set()
    for part in parts(pipe).values():
        names.update(map(str, getattr(part, "peft_config", None) or {}))
    return sorted(names)

# --- process.py ---

"""What kind of diffusion process a pipeline's scheduler samples, read from the scheduler's class and configuration.

    x = a + σn                  noise table, EDM        x/s(σ) is what the pipeline holds
    x = (1−σ)a + σn             flow                    the pipeline holds x itself

A process says what the network is told at σ, how its answer becomes a prediction of the data, and how a state is scaled
where a pipeline holds it. A class that is not known, and a setting that changes the process in a way that is not known,
is refused by name: taken for another process it would sample nonsense without a word.
"""

import inspect
import math


# Below are the settings of diffusers' schedulers. Those of a grid, of an order or of added noise belong to the scheduler
# that is replaced and say nothing about the process.
_GRID = {
    "timestep_spacing", "steps_offset", "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "use_lu_lambdas",
    "final_sigmas_type", "interpolation_type", "set_alpha_to_one", "solver_order", "solver_type", "algorithm_type",
    "lower_order_final", "euler_at_final", "lambda_min_clipped", "variance_type", "disable_corrector", "solver_p",
    "predict_x0", "skip_prk_steps", "predictor_order", "corrector_order", "tau_func", "noise_sampler_seed",
    "shift", "flow_shift", "use_dynamic_shifting", "base_shift", "max_shift", "base_image_seq_len", "max_image_seq_len",
    "shift_terminal", "time_shift_type", "sigma_schedule", "rho", "s_noise", "eta", "stochastic_sampling",
    "sigma_min", "sigma_max", "base_sequence_length", "max_sequence_length",
}  # fmt: skip
_PROCESS = {
    "num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "prediction_type",
    "rescale_betas_zero_snr", "snr_shift_scale", "timestep_type", "use_flow_sigmas", "invert_sigmas", "sigma_data",
    "clip_sample", "clip_sample_range", "thresholding", "dynamic_thresholding_ratio", "sample_max_value",
}  # fmt: skip
_TABLE_CLASSES = {
    "DDIMScheduler", "DDIMParallelScheduler", "DDPMScheduler", "DDPMParallelScheduler", "CogVideoXDDIMScheduler",
    "CogVideoXDPMScheduler", "DEISMultistepScheduler", "DPMSolverMultistepScheduler", "DPMSolverSDEScheduler",
    "DPMSolverSinglestepScheduler", "EulerAncestralDiscreteScheduler", "EulerDiscreteScheduler", "HeunDiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler", "KDPM2DiscreteScheduler", "LMSDiscreteScheduler", "PNDMScheduler",
    "SASolverScheduler", "UnCLIPScheduler", "UniPCMultistepScheduler",
}  # fmt: skip
_FLOW_CLASSES = {
    "FlowMatchEulerDiscreteScheduler", "FlowMatchHeunDiscreteScheduler", "LTXEulerAncestralRFScheduler", "MiniMaxH3Scheduler",
}  # fmt: skip
_EDM_CLASSES = {"EDMEulerScheduler", "EDMDPMSolverMultistepScheduler"}
_ANGLE_CLASSES = {"CosineDPMSolverMultistepScheduler", "IPNDMScheduler"}
#: Schedulers that add noise as they go: no two runs with other grids lead to the same picture.
STOCHASTIC = {
    "CosineDPMSolverMultistepScheduler", "DDPMParallelScheduler", "DDPMScheduler", "DPMSolverSDEScheduler",
    "EulerAncestralDiscreteScheduler", "KDPM2AncestralDiscreteScheduler", "LTXEulerAncestralRFScheduler",
    "SASolverScheduler", "UnCLIPScheduler", "CogVideoXDPMScheduler",
}  # fmt: skip
#: What is not of diffusers, and is kept beside its settings: what learning found.
_FOUND = {"told_shift"}
_WHY_NOT = {
    "DDPMWuerstchenScheduler": "its pipelines tell it from others by its class, and tell their network otherwise with others",
    "LCMScheduler": "networks of consistency models are few-step samplers already",
    "TCDScheduler": "networks of consistency models are few-step samplers already",
    "SCMScheduler": "networks of consistency models are few-step samplers already",
    "CMStochasticIterativeScheduler": "networks of consistency models are few-step samplers already",
    "FlowMatchLCMScheduler": "networks of consistency models are few-step samplers already",
    "FlowMapEulerDiscreteScheduler": "flow maps are few-step samplers already",
    "DDIMInverseScheduler": "it runs from data to noise",
    "DPMSolverMultistepInverseScheduler": "it runs from data to noise",
}


class UnknownProcess(ValueError):
    """A scheduler whose process is not known well enough to be sampled."""


class Process:
    """What all processes share. σ is the level of a state; `told` is what the network is given for it."""

    flow = False
    prediction = "epsilon"
    clip = None

    def outer(self, level):
        """Factor from x to the state that the pipeline holds, and shows its network at `level`."""
        return 1.0

    def shown(self, level):
        """Factor from the pipeline's state to the network's input: what `scale_model_input` does."""
        return 1.0

    def slope(self, output, x, level, time):
        """dx/dσ at `time` from what the network says at `level`."""
        if self.flow:
            return output
        if self.prediction == "epsilon" and self.clip is None and not self.preconditioned:
            return output * (level / (time + 1e-8))
        data = self.data(output, x, level)
        return (x - (data if self.clip is None else self.clip(data))) / (time + 1e-8)

    preconditioned = False

    def answer(self, slope, x, level):
        """What a network would say whose slope at x is `slope`: the inverse of `slope`, without clipping."""
        zero, one = self.data(x * 0.0, x, level), self.data(x * 0.0 + 1.0, x, level)
        return slope if self.flow else (x - level * slope - zero) / (one - zero)

    def data(self, output, x, level):
        """The data prediction at a state x = a + level·n."""
        if self.prediction == "sample":
            return output
        if self.prediction == "epsilon":
            return x - level * output
        root = math.sqrt(1.0 + level * level)
        return x / (root * root) - output * (level / root)


class TableProcess(Process):
    """A discrete noise table: the network is told where in the table a level is. States are of variance one."""

    def __init__(self, table, prediction="epsilon", last=999, continuous=False, ends=(None, None)):
        self.table, self.prediction, self.last, self.continuous, self.ends = table, prediction, last, continuous, ends

    def told(self, level):
        return 0.25 * math.log(max(level, 1e-12)) if self.continuous else self.table.timestep(level)

    def level(self, told):
        return math.exp(4.0 * told) if self.continuous else self.table.sigma(told)

    def outer(self, level):
        return 1.0 / math.sqrt(1.0 + level * level)

    @property
    def sigma_range(self):
        low, high = self.ends
        return self.table.sigma(0) if low is None else low, self.table.sigma(self.last) if high is None else high


class AngleProcess(Process):
    """A network that is told the angle 2/π·arctan σ. Cosine DPM-Solver keeps x, iPNDM a state of variance one."""

    def __init__(self, prediction, data_std, scaled, sigma_range):
        self.prediction, self.data_std, self.scaled, self.sigma_range = prediction, data_std, scaled, sigma_range
        self.preconditioned = not scaled

    def told(self, level):
        return math.atan(level) / math.pi * 2.0

    def level(self, told):
        return math.tan(told * math.pi / 2.0)

    def outer(self, level):
        return 1.0 / math.sqrt(1.0 + level * level) if self.scaled else 1.0

    def shown(self, level):
        return 1.0 if self.scaled else 1.0 / math.hypot(level, self.data_std)

    def data(self, output, x, level):
        return super().data(output, x, level) if self.scaled else _preconditioned(self, output, x, level)


class EdmProcess(Process):
    """Karras et al. 2022: the network is told ln σ / 4, shown x/√(σ² + σ_data²), and its answer is mixed with x."""

    preconditioned = True

    def __init__(self, prediction, data_std, sigma_range):
        self.prediction, self.data_std, self.sigma_range = prediction, data_std, sigma_range

    def told(self, level):
        return 0.25 * math.log(max(level, 1e-12))

    def level(self, told):
        return math.exp(4.0 * told)

    def shown(self, level):
        return 1.0 / math.hypot(level, self.data_std)

    def data(self, output, x, level):
        return _preconditioned(self, output, x, level)


class FlowProcess(Process):
    """Flow matching. With inverted levels the network is told 1−σ and answers with the opposite velocity.

    Some pipelines (CogView4) shift their levels and not the times that the network is told: `shift` leads from these to
    levels.
    """

    flow, sigma_range = True, (0.0, 1.0)

    def __init__(self, steps=1000, inverted=False, prediction="flow_prediction", shift=1.0):
        self.steps, self.inverted, self.prediction, self.shift = steps, inverted, prediction, shift

    def told(self, level):
        time = level / (self.shift - (self.shift - 1.0) * level)
        return (1.0 - time if self.inverted else time) * self.steps

    def level(self, told):
        time = 1.0 - told / self.steps if self.inverted else told / self.steps
        level = self.shift * time / (1.0 + (self.shift - 1.0) * time)
        # Rounding must not lead beyond pure noise.
        return min(level, 1.0) if time <= 1.0 else level

    def slope(self, output, x, level, time):
        """The velocity n − a, from n or a where the network predicts those."""
        if self.prediction == "epsilon":
            return (output - x) / max(1.0 - level, 1e-8)
        if self.prediction == "sample":
            return (x - output) / max(level, 1e-8)
        return -output if self.inverted else output

    def answer(self, slope, x, level):
        if self.prediction == "epsilon":
            return x + slope * max(1.0 - level, 1e-8)
        if self.prediction == "sample":
            return x - slope * max(level, 1e-8)
        return -slope if self.inverted else slope


def _preconditioned(process, output, x, level):
    """c_skip·x + c_out·F; the sign of c_out is that of v for networks that predict it."""
    variance = level * level + process.data_std**2
    out = level * process.data_std / math.sqrt(variance)
    return x * (process.data_std**2 / variance) + output * (-out if process.prediction == "v_prediction" else out)


class _Clip:
    """Clipping, or dynamic thresholding, of data predictions, as the scheduler that is replaced does it."""

    def __init__(self, config):
        self.dynamic = bool(config.get("thresholding"))
        self.ratio, self.most = config.get("dynamic_thresholding_ratio", 0.995), config.get("sample_max_value", 1.0)
        self.range = config.get("clip_sample_range", 1.0)

    def __call__(self, data):
        if not self.dynamic:
            return data.clamp(-self.range, self.range)
        flat = data.flatten(1).abs().float().quantile(self.ratio, dim=1).clamp(1.0, self.most)
        bound = flat.reshape(-1, *[1] * (data.ndim - 1)).to(data.dtype)
        return data.clamp(-bound, bound) / bound


def process_of(scheduler):
    """The process of a scheduler, or of a scheduler's configuration."""
    name, config = name_and_config(scheduler)
    _refuse_unknown(name, config)
    process = _of(name, effective(name, config))
    _check_table(name, process, scheduler)
    return process


def effective(name, config):
    """The settings that a class has. Others were left by an earlier scheduler (`from_config`) and do nothing."""
    known = _settings(name) | _FOUND
    return {key: value for key, value in config.items() if key in known}


def adds_noise(scheduler):
    """Whether a scheduler adds noise as it goes."""
    name, config = name_and_config(scheduler)
    config = effective(name, config)
    stochastic = config.get("stochastic_sampling") or str(config.get("algorithm_type", "")).startswith("sde")
    return name in STOCHASTIC or bool(stochastic)


def _check_table(name, process, scheduler):
    """A scheduler's own table, if it has one, must be that of its settings: somebody may have put another in place."""
    own = getattr(scheduler, "alphas_cumprod", None)
    if own is None or not isinstance(process, TableProcess) or not hasattr(scheduler, "config"):
        return
    logs = [2.0 * v for v in process.table.log_alphas]
    held = [float(v) for v in own]
    # The last level of zero terminal SNR is 0 in some classes and 2⁻²⁴ in others.
    far = [j for j, (a, log) in enumerate(zip(held, logs)) if log > -13.0 and abs(math.log(max(a, 1e-30)) - log) > 1e-2]
    if len(held) != len(logs) or far:
        raise UnknownProcess(f"{name} is not served: its alphas_cumprod is not that of its settings")


def _of(name, config):
    """The process of a class and its own settings."""
    if name == "MiniMaxH3Scheduler":  # told 1−σ, and answers with the velocity towards the data
        return FlowProcess(1, inverted=True)
    if _is_flow(name, config):
        if config.get("thresholding"):
            raise UnknownProcess(f"{name} with thresholding=True is not served for a flow")
        said = config.get("prediction_type", "epsilon") if config.get("use_flow_sigmas") else "flow_prediction"
        shift = config.get("told_shift") or 1.0  # not of diffusers: what learning found
        return FlowProcess(config.get("num_train_timesteps", 1000), bool(config.get("invert_sigmas")), said, shift)
    prediction = config.get("prediction_type", "v_prediction" if name.startswith("Cosine") else "epsilon")
    known = ("epsilon", "v_prediction", "sample")
    if prediction not in known:
        raise UnknownProcess(f"{name}: prediction_type is {prediction!r}, but a noise table needs {' or '.join(known)}")
    if name in _EDM_CLASSES:
        process = EdmProcess(prediction, config.get("sigma_data", 0.5), _range(config, 0.002, 80.0))
        process.clip = _clip(name, config)
        return process
    if name in _ANGLE_CLASSES:
        cosine = name.startswith("Cosine")
        ends = _range(config, 0.3, 500.0) if cosine else (0.002, 1000.0)
        return AngleProcess(prediction, config.get("sigma_data", 1.0), not cosine, ends)
    return _table_process(name, config, prediction)


def name_and_config(scheduler):
    """Class and settings, from a scheduler, its configuration, or what a learned scheduler keeps of the one before."""
    config = dict(getattr(scheduler, "config", scheduler))
    name = type(scheduler).__name__ if hasattr(scheduler, "config") else config.get("_class_name")
    if name in (None, "DyWeightScheduler") and isinstance(config.get("own"), dict):
        own = dict(config["own"])
        _refuse_two(config, own)
        config, name = own, own.get("_class_name")
    # A scheduler that was made from a learned one's configuration keeps what that had.
    config = {key: value for key, value in config.items() if not key.startswith("_") and key not in ("solver", "own")}
    name = None if name == "DyWeightScheduler" else name
    return name or _class_of(config), config


def _refuse_two(config, own):
    """Settings that were changed after a learned scheduler was made from others."""
    own = effective(own.get("_class_name") or "", own)
    for key in sorted(_PROCESS & set(config) & set(own) - {"use_flow_sigmas"}):
        if str(config[key]) != str(own[key]):
            raise UnknownProcess(
                f"these settings are of two schedulers: {key} is {config[key]!r} and was {own[key]!r} when the solver"
                " was set; pass the scheduler itself, not its configuration"
            )


def _class_of(config):
    """The class whose settings these are: of the same settings all known classes make the same process."""
    known = [*sorted(_TABLE_CLASSES | _FLOW_CLASSES | _EDM_CLASSES | _ANGLE_CLASSES), *_WHY_NOT]
    keys = set(config)
    same = [name for name in known if keys and _settings(name) == keys]
    if same:
        return same[0]
    flow = ("shift" in config or config.get("use_flow_sigmas")) and "beta_start" not in config
    if flow or config.get("prediction_type") == "flow_prediction":
        return "FlowMatchEulerDiscreteScheduler"
    if "sigma_data" in config:
        return "CosineDPMSolverMultistepScheduler" if config["sigma_data"] == 1.0 else "EDMEulerScheduler"
    if keys & {"beta_start", "beta_end", "beta_schedule", "trained_betas"}:
        return "EulerDiscreteScheduler"
    raise UnknownProcess(
        f"these settings name no process (keys: {', '.join(sorted(keys)) or 'none'}): pass the pipeline's scheduler,"
        " from_file(path, pipe.scheduler)"
    )


def _settings(name):
    import diffusers

    kind = getattr(diffusers, name, None)
    # What stands in for a class whose own requirements are missing takes any arguments.
    signature = inspect.signature(kind.__init__).parameters.values() if kind is not None else ()
    return {p.name for p in signature if p.name != "self" and p.kind == p.POSITIONAL_OR_KEYWORD}


def _refuse_unknown(name, config):
    if name in _WHY_NOT:
        raise UnknownProcess(f"{name} is not served: {_WHY_NOT[name]}")
    if name not in _TABLE_CLASSES | _FLOW_CLASSES | _EDM_CLASSES | _ANGLE_CLASSES:
        raise UnknownProcess(f"{name} is not served: its process is not known")
    defaults = _defaults(name)
    spread = [config.get(f"use_{kind}_sigmas") for kind in ("karras", "exponential", "beta")]
    if config.get("interpolation_type") == "log_linear" and not any(spread) and config.get("timestep_type") != "continuous":
        raise UnknownProcess(f"{name} with interpolation_type='log_linear' is not served: its levels are not those of its timesteps")
    for key, value in config.items():
        if key in _GRID | _PROCESS or key not in defaults or value == defaults[key]:
            continue
        raise UnknownProcess(f"{name} with {key}={value!r} is not served: what {key} does to the process is not known")


def _defaults(name):
    import diffusers

    parameters = inspect.signature(getattr(diffusers, name).__init__).parameters
    return {key: p.default for key, p in parameters.items() if key != "self"}


def _is_flow(name, config):
    if name in _FLOW_CLASSES or config.get("prediction_type") == "flow_prediction":
        return True
    if config.get("use_flow_sigmas") and config.get("prediction_type", "epsilon") not in ("epsilon", "sample"):
        raise UnknownProcess(f"{name}: use_flow_sigmas with prediction_type {config.get('prediction_type')!r}")
    return bool(config.get("use_flow_sigmas"))


def _range(config, low, high):
    return config.get("sigma_min", low), config.get("sigma_max", high)


def _table_process(name, config, prediction):
    config = {**{k: v for k, v in _defaults(name).items() if v is not inspect.Parameter.empty}, **config}
    count = config.get("num_train_timesteps", 1000)
    continuous = config.get("timestep_type") == "continuous" and prediction == "v_prediction"
    table = noise_table(config, count, zero_last=not name.startswith("CogVideoX"))
    # Levels that are told as they are may lie beyond the table.
    ends = _range(config, None, None) if continuous else (None, None)
    process = TableProcess(table, prediction, len(table.log_alphas) - 1, continuous, ends)
    process.clip = _clip(name, config)
    return process


def _clip(name, config):
    """What a class does to data predictions. CogVideoX's have the setting and do not look at it."""
    if name.startswith("CogVideoX") or not config.get("predict_x0", True):
        return None
    return _Clip(config) if config.get("thresholding") or config.get("clip_sample") else None


def noise_table(config, count, zero_last=True):
    """ln α of a configuration, in f64."""
    squares = _running_products([1.0 - beta for beta in betas(config, count)])
    shift = config.get("snr_shift_scale") or 1.0
    squares = [a / (shift + (1.0 - shift) * a) for a in squares]
    alphas = [math.sqrt(a) for a in squares]
    if config.get("rescale_betas_zero_snr"):
        # Lin et al. 2024, Algorithm 1; the last level, which would be infinite, is the 2⁻²⁴ that diffusers puts there.
        first, last = alphas[0], alphas[-1]
        alphas = [(a - last) * (first / (first - last)) for a in alphas]
        alphas[-1] = 2.0**-12
    return NoiseTable([math.log(a) for a in alphas])


def _running_products(factors):
    product, products = 1.0, []
    for factor in factors:
        product *= factor
        products.append(product)
    return products


def betas(config, count):
    """β of a configuration."""
    schedule, start, end = config.get("beta_schedule", "linear"), config.get("beta_start", 1e-4), config.get("beta_end", 0.02)
    trained = config.get("trained_betas")
    if trained is not None:
        return [float(beta) for beta in trained]
    if schedule == "linear":
        return [start + j / (count - 1) * (end - start) for j in range(count)]
    if schedule == "scaled_linear":
        low, high = math.sqrt(start), math.sqrt(end)
        return [(low + j / (count - 1) * (high - low)) ** 2 for j in range(count)]
    if schedule == "sigmoid":
        line = [-6.0 + 12.0 * j / (count - 1) for j in range(count)]
        return [start + (end - start) / (1.0 + math.exp(-v)) for v in line]
    if schedule == "squaredcos_cap_v2":
        bar = [math.cos((j / count + 0.008) / 1.008 * math.pi / 2) ** 2 for j in range(count + 1)]
        return [min(1.0 - b / a, 0.999) for a, b in zip(bar, bar[1:])]
    known = "linear, scaled_linear, sigmoid and squaredcos_cap_v2"
    raise UnknownProcess(f"beta_schedule {schedule!r} is not known; those known are {known}")

# --- scheduler.py ---

"""A scheduler for Hugging Face diffusers that samples with a learned solver (DyWeight, CVPR 2026, Algorithm 2).

    pipe.scheduler = DyWeightScheduler.from_file("solver.json", pipe.scheduler)
    image = pipe("a red bicycle", num_inference_steps=pipe.scheduler.calls).images[0]

Inside, a state is x = a + σn, for flows (1−σ)a + σn, in f32 whatever the pipeline's dtype. What the pipeline holds is x
times `process.outer(level)`: for noise tables a state of variance one, so that the network is shown the right thing by
pipelines that scale their network's input and by pipelines that do not. The network is told real-valued timesteps.
"""

import copy
import importlib
import inspect
import math
import weakref
from dataclasses import dataclass

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from diffusers.utils import BaseOutput, logging


logger = logging.get_logger(__name__)


@dataclass
class DyWeightSchedulerOutput(BaseOutput):
    """The next state, and the data prediction it was made with."""

    prev_sample: torch.Tensor
    pred_original_sample: torch.Tensor | None = None


class DyWeightScheduler(SchedulerMixin, ConfigMixin):
    """Samples with a learned solver. Its number of steps is the solver's: `num_inference_steps` must be `calls`, or what
    the solver was learned with (image to image begins in the middle of a longer run).

    The configuration is the solver file's content and the scheduler that is replaced (`own`: its class and settings), so
    saving and loading keep both.
    """

    order = 1
    # Whatever pipeline takes one of these takes this scheduler.
    _compatibles = [
        "DDIMScheduler", "DDPMScheduler", "DPMSolverMultistepScheduler", "EulerDiscreteScheduler",
        "FlowMatchEulerDiscreteScheduler", "PNDMScheduler", "UniPCMultistepScheduler",
    ]  # fmt: skip

    @register_to_config
    def __init__(
        self,
        solver: dict | None = None,
        own: dict | None = None,
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
            raise ValueError("no solver: use DyWeightScheduler.from_file(path, pipe.scheduler) or from_preset")
        self.solver = SolverFile(solver)
        self.process = self._understood()
        # Pipelines that see use_flow_sigmas leave the grid to the scheduler.
        self.register_to_config(prediction_type=self.process.prediction, use_flow_sigmas=self.process.flow)
        # An analytical first step is part of the initial noise: loop index j is step j + 1 of the solver.
        self._first = int(self.solver.afs)
        if self.calls == 0:
            raise ValueError("this solver is an analytical step alone and calls no network")
        self._offer_table()
        # Whether the noise of the run to come was scaled by `init_noise_sigma`, or added to data.
        self._state, self._noise_scaled, self._noise_added, self._before = None, False, False, None
        self._next_scaled, self._next_added = False, False
        self._pipe, self._warned = None, set()
        self.set_timesteps(self.calls)
        self._warn_beyond_table()
        self._warn_other_process()

    def _understood(self):
        """The process, from the scheduler that is replaced or, without one, from the settings given here."""
        process = process_of(self.config.own if self.config.own is not None else _settings_alone(self))
        if self.config.own is not None and _says_otherwise(self.config, process):
            raise UnknownProcess(
                f"prediction_type is {self.config.prediction_type!r}, but the scheduler that the solver was set for has"
                f" {process.prediction!r}: pass the scheduler itself, from_file(path, pipe.scheduler)"
            )
        if process.flow == (self.solver.prediction == "velocity"):
            return process
        kinds = {True: "a flow", False: "a noise table"}
        message = f"the solver was learned for {kinds[self.solver.prediction == 'velocity']}"
        raise ValueError(f"{message}, but the pipeline's model is trained on {kinds[process.flow]}")

    def _offer_table(self):
        """`betas`, `alphas` and `alphas_cumprod`, which some pipelines read, where there is a table."""
        if isinstance(self.process, TableProcess):
            logs = torch.tensor(self.process.table.log_alphas, dtype=torch.float64)
            self.alphas_cumprod = torch.exp(2.0 * logs).float()
            self.alphas = torch.exp(2.0 * torch.diff(logs, prepend=torch.zeros(1, dtype=torch.float64))).float()
            self.betas = 1.0 - self.alphas

    @classmethod
    def from_file(cls, path, scheduler=None, **options):
        """A scheduler from a solver file, or from a `Solver`. `scheduler` is the pipeline's own, or its configuration: it says what the
        network predicts, on which process. Given the pipeline itself, another model and other guidance than at training
        are worth a warning too. Without it a solver on a named noise table brings its own; `options` override."""
        solver = path.file if hasattr(path, "record") else SolverFile.load(path)
        return cls._from_solver(solver, scheduler, options)

    @classmethod
    def from_preset(cls, name, scheduler=None, **options):
        """A scheduler from a released set of coefficients: 'ms-coco-nfe16', 'flux-nfe7', …"""
        try:
            presets = importlib.import_module("dyweight.presets")
        except ImportError as error:
            hint = (
                "install the package dyweight, or write one with 'dyweight convert preset:NAME FILE' and use from_file"
            )
            raise ImportError(f"presets come with the package: {hint}") from error
        return cls._from_solver(SolverFile(presets.record(name)), scheduler, options)

    @classmethod
    def _from_solver(cls, solver, scheduler, options):
        if scheduler is None:
            return cls(**{"solver": solver.record, **_own_table(solver, options), **options})
        if hasattr(scheduler, "scheduler"):
            return cls._from_solver(solver, scheduler.scheduler, options).of_pipeline(scheduler)
        name, config = name_and_config(scheduler)
        # What learning found of the process beyond the settings.
        found = {k: v for k, v in solver.record.get("training", {}).items() if k == "told_shift"}
        config = {**config, **found, **options}
        mine = inspect.signature(cls.__init__).parameters
        known = {key: value for key, value in config.items() if key in mine}
        made = cls(**{**known, "solver": solver.record, "own": {"_class_name": name, **config}})
        # Pipelines read some of the rest (FLUX: base_shift), and a later change of scheduler needs it back.
        made.register_to_config(**{k: v for k, v in config.items() if k not in mine})
        return made

    def of_pipeline(self, pipe):
        """The same, which knows whose scheduler it is: another model and other guidance are worth a warning."""
        self._pipe = weakref.ref(pipe)
        self._warn_other_model(pipe)
        return self

    def __getstate__(self):
        return {**self.__dict__, "_pipe": None}

    def with_solver(self, solver):
        """The same scheduler with other coefficients, at the beginning of a run."""
        other = copy.copy(self)
        other.solver, other._first = solver, int(solver.afs)
        other._state, other._noise_scaled, other._noise_added, other._before = None, False, False, None
        other._next_scaled, other._next_added = False, False
        return other

    def renewed(self):
        """The same, its configuration that of its solver."""
        return type(self)._from_solver(self.solver, {**self.config}, {})

    @property
    def calls(self) -> int:
        """Network evaluations of one sample: what `num_inference_steps` must be, but for image to image."""
        return self.solver.calls

    @property
    def init_noise_sigma(self) -> float:
        """Factor on the unit noise at the start. It includes an analytical first step, which scales the noise."""
        self._noise_scaled = self._noise_scaled or self._state is None
        self._next_scaled = self._next_scaled or self._is_over()
        growth = self._analytic_growth() if self.solver.afs else self._unit_growth()
        return self.solver.times[0] * growth * self.process.outer(self.solver.levels[self._first])

    def _is_over(self):
        """Whether the last step of a run was made."""
        return self._state is not None and self._step_index == len(self.timesteps)

    def _unit_growth(self):
        """A solver learned for a pipeline begins as diffusers' own do where states are of variance one: with the noise
        as it is, which stands for √(1+T²)·n."""
        unit = self.solver.record.get("training", {}).get("variance_one", False)
        return math.sqrt(1.0 + self.solver.times[0] ** -2) if unit else 1.0

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

    def set_timesteps(
        self, num_inference_steps=None, device=None, sigmas=None, mu=None, timesteps=None
    ):
        """Prepares a run. `sigmas`, `timesteps` and `mu` are what pipelines offer; the grid is the solver's."""
        offered = sigmas if sigmas is not None else timesteps
        if num_inference_steps is None and offered is not None:
            num_inference_steps = len(offered)
        self._pad = self._padding(num_inference_steps)
        self._warn_other_shift(mu)
        self._warn_other_grid(offered)
        self._warn_other_guidance()
        self.num_inference_steps = num_inference_steps
        levels = [*self._levels_before(), *self.solver.levels[self._first :]]
        self.timesteps = torch.tensor([self.process.told(v) for v in levels], dtype=torch.float32, device=device)
        runs = [*levels[: self._pad], *self.solver.run_sigmas[self._first :]]
        self.sigmas = torch.tensor(runs, dtype=torch.float32)
        self._step_index, self._begin_index, self._input_scaled = None, None, False
        if self._state is not None:
            # What is known of the noise belongs to a run that has been, but for what was asked for after its last step:
            # some pipelines make their noise before they set their timesteps.
            self._noise_scaled, self._noise_added = self._next_scaled, self._next_added
        self._next_scaled, self._next_added = False, False
        self._slopes, self._state, self._returned, self._before = [], None, None, None

    def _padding(self, steps):
        """How many timesteps of this run come before those of the solver."""
        longer = self.solver.record.get("training", {}).get("num_inference_steps", self.calls)
        if steps in (self.calls, longer):
            return steps - self.calls
        counted = f" (nfe {self.solver.nfe} with guidance)" if self.solver.nfe != self.calls else ""
        raise ValueError(
            f"this solver has {self.calls} network evaluations{counted}: num_inference_steps must be {longer}, not {steps}"
        )

    def _levels_before(self):
        """Levels of the timesteps before the solver's own, which no run with the solver's strength reaches."""
        top, start = self.process.sigma_range[1], self.solver.levels[self._first]
        return [start + (max(top, start) - start) * (1.0 - i / self._pad) for i in range(self._pad)]

    def scale_model_input(self, sample, timestep=None):
        """What the network is shown. Where the state is of variance one, or a flow's, that is the state."""
        if self._step_index is None:
            self._step_index = self._index_of_run(timestep)
        self._input_scaled = True
        factor = self.process.shown(self.solver.levels[self._solver_step()])
        if factor == 1.0:
            return sample
        if self._state is None and not self._begun_scaled():
            factor *= self.solver.times[self._solver_step()]
        return (sample.to(_precise(sample)) * factor).to(sample.dtype)

    def step(
        self,
        model_output,
        timestep,
        sample,
        eta: float = 0.0,
        use_clipped_model_output: bool | None = None,
        generator=None,
        variance_noise=None,
        return_dict: bool = True,
        per_token_timesteps=None,
        prev_timestep=None,
        pred_original_sample=None,
    ):
        """One step of the solver from the network's output at `sample`, or from the data prediction where that is given.

        Some pipelines make a step for its data prediction alone, take `_step_index` back and make it again.
        """
        if eta:
            raise ValueError(f"eta is {eta}, but a learned solver adds no noise: leave it 0")
        if self._step_index is None:
            self._step_index = self._index_of_run(timestep)
        if self._before is not None and self._before[0] == self._step_index:
            _, self._slopes, self._state, self._returned = self._before
        self._before = (self._step_index, list(self._slopes), self._state, self._returned)
        i = self._solver_step()
        x = self._recall(sample)
        if self._state is None:
            self._begin(x, i)
        if per_token_timesteps is not None:
            # Pipelines with a level for each token hand over the opposite: their steps count downwards.
            model_output = -model_output
        if pred_original_sample is not None:
            slope = (x - pred_original_sample.to(x)) / (self.solver.times[i] + 1e-8)
        else:
            slope = self.process.slope(self._answer(model_output, x), x, self.solver.levels[i], self.solver.times[i])
        following = self._advance(x, slope, i)
        if per_token_timesteps is not None:
            following = self._keep_clean(following, x, per_token_timesteps)
        factor = self.process.outer(self.solver.levels[i + 1]) if i + 1 < self.solver.steps else 1.0
        self._state, self._returned = following, (following * factor).to(sample.dtype)
        self._step_index += 1
        signal = x - self.solver.times[i] * slope
        denoised = signal.to(sample.dtype)
        if not return_dict:
            return (self._returned, denoised)
        return DyWeightSchedulerOutput(prev_sample=self._returned, pred_original_sample=denoised)

    def _solver_step(self):
        """The step of the solver that the next network call belongs to."""
        i = self._step_index - self._pad + self._first
        if i < self._first:
            raise ValueError(
                f"the solver was learned for the last {self.calls} of {self.num_inference_steps} steps (image to image),"
                f" and this run begins {self._first - i} earlier: call the pipeline with the strength it was learned with"
            )
        if i >= self.solver.steps:
            raise ValueError(f"step {i + 1} of a solver of {self.solver.steps} steps: begin anew with set_timesteps")
        return i

    def _answer(self, output, x):
        """The network's output without a predicted variance, which comes as as many channels again."""
        output = output.to(x.dtype)
        if output.shape != x.shape and output.ndim > 1 and output.shape[1] == 2 * x.shape[1]:
            output = output.chunk(2, dim=1)[0]
        if output.shape != x.shape:
            raise ValueError(f"the network's output has shape {list(output.shape)}, the state {list(x.shape)}")
        return output

    def _advance(self, x, slope, i):
        """x + δ_i·Σ w·d, over the window of slopes."""
        self._slopes.append(slope)
        row, length = self.solver.row(i, len(self._slopes)), self.solver.length(i)
        for weight, past in zip(row, self._slopes[-len(row) :]):
            x = x + (length * weight) * past
        self._slopes = self._slopes[-max(map(len, self.solver.weights)) :]
        return x

    def _keep_clean(self, following, x, told):
        """Tokens that the network is told are clean stay as they are; all others are at the level of the step."""
        clean = (told <= 0).reshape(*told.shape, *[1] * (x.ndim - told.ndim))
        return torch.where(clean, x, following)

    def _begin(self, x, i):
        """The analytical slope of step 0 follows from the state it led to."""
        if self.process.shown(1.0) != 1.0 and not self._input_scaled:
            raise ValueError(
                "this model's input is scaled by its level, which this pipeline does not do: it never calls"
                " scheduler.scale_model_input"
            )
        if not (self._first and i == 1 and self._begin_index in (None, 0)):
            return
        if not (self._noise_scaled or self._noise_added):
            raise ValueError(
                "this solver's analytical first step scales the initial noise, which this pipeline does not do by itself:"
                " pass latents=pipe.scheduler.initial_latents(noise)"
            )
        self._slopes = [x * (self.solver.analytic_slope / self._analytic_growth())]

    def _begun_scaled(self):
        """Whether the first state is what `init_noise_sigma` or `add_noise` make, and not unit noise. Only states of variance
        one can be taken from noise as it is: of others some pipelines (Cosmos) scale it by themselves."""
        return self.process.outer(1.0) == 1.0 or self._noise_scaled or self._noise_added or self._solver_step() > self._first

    def _recall(self, sample):
        """x in full precision: the state as it was returned, but for what a pipeline changed (inpainting, callbacks)."""
        given, i = sample.to(_precise(sample)), self._solver_step()
        if self._state is None and not self._begun_scaled():
            # Noise as it is: the state of variance one.
            return given / self.process.outer(self.solver.times[i])
        x = given / self.process.outer(self.solver.levels[i])
        if self._state is None or self._returned.shape != sample.shape or self._returned.dtype != sample.dtype:
            return x
        return torch.where(sample == self._returned.to(sample.device), self._state.to(sample.device), x)

    def add_noise(self, original_samples, noise, timesteps):
        """Clean data with the noise of the state at which the network is told `timesteps`."""
        steps = [max(self.index_for_timestep(t) - self._pad, 0) + self._first for t in timesteps.flatten()]
        dtype = _precise(original_samples)
        shape = (-1,) + (1,) * (original_samples.ndim - 1)

        def column(values):
            return torch.tensor(values, dtype=dtype, device=original_samples.device).reshape(shape)

        time = column([self.solver.times[i] for i in steps])
        outer = column([self.process.outer(self.solver.levels[i]) for i in steps])
        signal = 1.0 - time if self.process.flow else 1.0
        self._noise_added = self._noise_added or self._state is None
        self._next_added = self._next_added or self._is_over()
        noised = (signal * original_samples.to(dtype) + time * noise.to(dtype)) * outer
        return noised.to(original_samples.dtype)

    def scale_noise(self, sample, timestep, noise):
        """`add_noise`, as flow pipelines call it."""
        return self.add_noise(sample, noise, timestep)

    def _get_conditioning_c_in(self, sigma):
        """What the network's input is scaled by at a level: Cosmos's pipelines ask their EDM scheduler for it."""
        return (sigma**2 + self.process.data_std**2) ** -0.5

    def index_for_timestep(self, timestep, schedule_timesteps=None) -> int:
        """Index of the call whose timestep is nearest; of equals the last."""
        known = self.timesteps if schedule_timesteps is None else schedule_timesteps
        place = _place_in(known, timestep)
        if place is not None:
            return place
        distances = (known - torch.as_tensor(timestep).to(known)).abs()
        return len(known) - 1 - int(distances.flip(0).argmin())

    def _index_of_run(self, timestep):
        return self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index

    def _warn_other_grid(self, offered):
        """Pipelines offer the grid they would use: uniform ones by default. Any other is a wish that cannot be granted."""
        learned = self.solver.record.get("training", {}).get("offered")
        if offered is None or learned is False:  # False while a solver is being learned
            return
        given, count = torch.as_tensor(offered, dtype=torch.float64).flatten(), len(offered)
        usual = torch.linspace(1.0, 1.0 / count, count, dtype=torch.float64)
        known = usual if learned is None else torch.tensor(learned, dtype=torch.float64)
        if len(known) != count or not torch.allclose(given, known, rtol=1e-3, atol=1e-3):
            logger.warning("sigmas and timesteps cannot be chosen: the grid belongs to the solver, which uses its own")

    def _warn_other_shift(self, mu):
        """Flow pipelines shift time by the size of the image, and a solver was learned for one."""
        schedule, training = self.solver.record.get("schedule", {}), self.solver.record.get("training", {})
        learned = math.log(schedule["shift"]) if schedule.get("kind") == "flow" else training.get("mu")
        if mu is None or learned is None or abs(learned - mu) < 0.01:
            return
        logger.warning(
            f"the solver was learned for a time shift of mu = {learned:.3f}; for this image size the pipeline would use"
            f" {mu:.3f}. The solver's own grid is used."
        )

    def _warn_other_process(self):
        """A solver belongs to the noise levels, and to the kind of network, that it was learned on."""
        learned = self.solver.record.get("training", {}).get("scheduler")
        if not isinstance(learned, dict):
            return
        try:
            other = process_of(learned)
        except UnknownProcess:
            return
        kinds = [type(process).__name__.removesuffix("Process").lower() for process in (other, self.process)]
        if kinds[0] != kinds[1]:
            logger.warning(f"the solver was learned on another kind of process ({kinds[0]}) than this model's ({kinds[1]})")
        elif any(abs(a - b) > 0.02 * max(a, b) for a, b in zip(_levels_of(other), _levels_of(self.process))):
            logger.warning("the solver was learned on another noise table than this model's: its timesteps mean other levels")

    def _warn_other_model(self, pipe):
        """The same weights in the same precision have the same name."""
        training = self.solver.record.get("training", {})
        if training.get("pipeline") not in (None, type(pipe).__name__):
            logger.warning(f"the solver was learned for {training['pipeline']}, and this is {type(pipe).__name__}")
        elif training.get("dtype") == str(getattr(pipe, "dtype", None)) and training.get("network") != digest(networks(pipe)):
            logger.warning("the solver was learned for other weights or adapters than this model's")

    def _warn_other_guidance(self):
        """Guidance as the pipeline has it in this run; a scheduler is not told."""
        pipe, learned = self._pipe and self._pipe(), self.solver.record.get("guidance")
        given = getattr(pipe, "_guidance_scale", None)
        numbers = isinstance(given, (int, float)) and isinstance(learned, (int, float))
        if not numbers or abs(given - learned) <= 0.1 * abs(learned) or given in self._warned:
            return
        self._warned.add(given)
        logger.warning(f"the solver was learned with a guidance scale of {learned:g}, and is used with {given:g}")

    def _warn_beyond_table(self):
        if self.process.flow:
            return
        top, first = self.process.sigma_range[1], self.solver.sigmas[0]
        if first > 1.05 * top:
            logger.warning(f"the solver starts at level {first:.4g}, but the model's noise table ends at {top:.4g}")

    def __len__(self):
        return self.config.num_train_timesteps


def _place_in(known, timestep):
    """Index of a timestep that was taken out of `known` itself, without asking its device for its value."""
    if not isinstance(timestep, torch.Tensor) or timestep.numel() != 1 or timestep.dtype != known.dtype:
        return None
    if timestep.device.type == "meta" or known.device != timestep.device:
        return None
    bytes_between = timestep.data_ptr() - known.data_ptr()
    place, rest = divmod(bytes_between, known.element_size())
    return place if rest == 0 and 0 <= place < len(known) and known.is_contiguous() else None


def _levels_of(process):
    """A few levels that tell one process from another of its kind."""
    if isinstance(process, TableProcess):
        return [process.level(process.told(1.0) if process.continuous else t * process.last) for t in (0.0, 0.25, 0.5, 0.75, 0.95)]
    return [getattr(process, "data_std", 0.0) or 0.0, float(getattr(process, "inverted", False))]


def _precise(tensor):
    return torch.promote_types(tensor.dtype, torch.float32)


def _settings_alone(scheduler):
    """The settings of a scheduler that was made without the one it replaces."""
    config = dict(scheduler.config)
    said = config["prediction_type"]
    if scheduler.solver.prediction == "velocity":
        if said not in (None, "flow_prediction") and not config["use_flow_sigmas"]:
            raise UnknownProcess(f"prediction_type is {said!r}, but a solver learned for a flow needs flow_prediction")
        return {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": config["num_train_timesteps"]}
    known = {k: v for k, v in config.items() if k.startswith(("beta_", "trained", "rescale", "num_train"))}
    return {"_class_name": "EulerDiscreteScheduler", **known, "prediction_type": said or "epsilon"}


def _says_otherwise(config, process):
    """Whether a prediction type was given that is not that of the scheduler which is replaced."""
    given = config["prediction_type"]
    return given not in (None, process.prediction, config["own"].get("prediction_type"))


def _own_table(solver, options):
    """Noise table of a solver on the discrete rule; flows need none."""
    if solver.prediction == "velocity" or "beta_start" in options or "trained_betas" in options:
        return {}
    name = solver.record["schedule"].get("table")
    if name is None:
        raise ValueError(
            "the solver does not say the model's noise table: pass the pipeline's scheduler,"
            " from_file(path, pipe.scheduler)"
        )
    start, end = NOISE_TABLES[name]
    return {"beta_start": start, "beta_end": end, "beta_schedule": "scaled_linear"}
