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

from .identity import digest, networks
from .process import TableProcess, UnknownProcess, name_and_config, process_of
from .solver_file import NOISE_TABLES, SolverFile

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
