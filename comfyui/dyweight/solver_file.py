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
