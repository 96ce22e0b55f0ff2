"""What kind of diffusion process a pipeline's scheduler samples, read from the scheduler's class and configuration.

    x = a + σn                  noise table, EDM        x/s(σ) is what the pipeline holds
    x = (1−σ)a + σn             flow                    the pipeline holds x itself

A process says what the network is told at σ, how its answer becomes a prediction of the data, and how a state is scaled
where a pipeline holds it. A class that is not known, and a setting that changes the process in a way that is not known,
is refused by name: taken for another process it would sample nonsense without a word.
"""

import inspect
import math

from .solver_file import NoiseTable

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
