"""A diffusers pipeline's network as the function a solver is learned for.

The pipeline itself is run once per prompt, for one step, while what it hands to its network is written down: text
embeddings, sizes, guidance, positions. Replayed with other states and levels this is the network under the pipeline's own
conditioning, whatever the pipeline:

    ε, v, data:  D(x, σ) from F(x/√(1+σ²), t(σ))          flow:  v(x, σ) = F(x, σ)
    guidance:    F = F_u + g·(F_c − F_u), one call of twice the batch, without condition first

The vector–Jacobian product comes from torch.autograd. Documentation: docs/diffusers.md.
"""

import contextlib
import importlib
import inspect
import math
import time

import torch

from .diffusers import DyWeightScheduler, SolverFile, _is_flow


class PipelineDenoiser:
    """`fn(x, sigma, conditions)`: the data prediction of a pipeline, or the velocity of a flow pipeline.

    `conditions` are indices into `prompts`, one per sample. `shape`, `prediction` and `sigma_range` say the rest.
    """

    def __init__(self, pipe, prompts, guidance_scale=None, **call):
        """`call` are further arguments of the pipeline: height, width, negative_prompt, …"""
        if not prompts:
            raise ValueError("at least one prompt is needed")
        self.network = getattr(pipe, "unet", None) or getattr(pipe, "transformer", None)
        if self.network is None:
            raise ValueError(f"{type(pipe).__name__} has neither a unet nor a transformer")
        if guidance_scale is not None:
            call["guidance_scale"] = guidance_scale
        self._conditions = [self._probe(pipe, prompt, call) for prompt in prompts]
        self._check_replay()

    @property
    def calls(self):
        """Network calls of one evaluation: two under guidance."""
        return self._repeat

    @property
    def guidance(self):
        """Strength of guidance, by two calls or as an input of the network; None without."""
        return self._guidance if self._repeat > 1 or self._embedded else None

    def model(self):
        """The same as a `dyweight.Model`, for training, sampling and comparing."""
        device = next(self.network.parameters()).device
        return importlib.import_module("dyweight.model").Model(
            self, self.shape, self.prediction, self.sigma_range, conditions=len(self._conditions), device=device,
            dtype=torch.float32, calls=self.calls, guided=self.guidance is not None, name=type(self.network).__name__,
        )  # fmt: skip

    def conditions_content(self):
        """A digest of what the prompts are encoded to: a model is another for other prompts."""
        return importlib.import_module("dyweight.model")._content(self._conditions)

    def grid(self, options):
        """The pipeline's own grid of a flow, where options do not say another."""
        said = {"schedule", "shift", "image_size", "sigmas"} & set(options)
        if not self._flow or said or self._shift is None:
            return {}
        return {"schedule": "flow", "shift": self._shift}

    def __call__(self, x, sigma, conditions=None):
        """D, or v for a flow; `sigma` is a number or one per sample. Gradients flow through both."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        sigma = torch.as_tensor(sigma, dtype=dtype, device=x.device).expand(x.shape[0])
        level = sigma.reshape(-1, *[1] * (x.ndim - 1))
        root = 1.0 if self._flow else (1.0 + level**2).sqrt()
        raw = self._evaluate(x.to(dtype) / root, self._timestep(sigma), self._indices(conditions, x.shape[0]))
        if self._flow or self._kind == "sample":
            return raw
        if self._kind == "v_prediction":
            return x / root**2 - raw * (level / root)
        return x - level * raw

    def vjp(self, x, sigma, cotangent, conditions=None):
        """Prediction, and the gradients of ⟨cotangent, prediction⟩ in x and, per sample, in sigma."""
        with torch.enable_grad(), _frozen(self.network):
            x = x.detach().requires_grad_()
            dtype = torch.promote_types(x.dtype, torch.float32)
            sigma = torch.as_tensor(sigma, dtype=dtype, device=x.device).detach().expand(x.shape[0]).clone()
            value = self(x, sigma.requires_grad_(), conditions)
            to_x, to_sigma = torch.autograd.grad(value, (x, sigma), cotangent.to(value))
        return value.detach(), to_x, to_sigma

    def _evaluate(self, shown, timestep, indices):
        """The network's output, guided."""
        dtype = getattr(self.network, "dtype", shown.dtype)
        arguments = _batch([self._conditions[i] for i in indices], self._repeat, shown.device)
        arguments[self._names[0]] = torch.cat([shown.to(dtype)] * self._repeat)
        arguments["timestep"] = torch.cat([timestep] * self._repeat)
        output = _tensor(self.network(**arguments)).to(shown.dtype)
        if self._repeat == 1:
            return output
        without, given = output.chunk(2)
        return without + self._guidance * (given - without)

    def _timestep(self, sigma):
        """What the network is told, as a differentiable function of the level."""
        if self._flow:
            return (sigma * self._train_timesteps * self._told).float()
        knots = torch.tensor(self._log_alphas, dtype=torch.float64, device=sigma.device)
        log_alpha = -0.5 * torch.log1p(sigma.double() ** 2)
        right = torch.searchsorted(-knots, -log_alpha.detach()).clamp(1, len(knots) - 1)
        a, b = knots[right - 1], knots[right]
        return ((right - 1 + (log_alpha - a) / (b - a)) * self._told).float()

    def _indices(self, conditions, count):
        indices = [0] * count if conditions is None else [int(i) for i in conditions]
        if len(indices) != count:
            raise ValueError(f"{len(indices)} conditions for {count} samples")
        return indices

    def _probe(self, pipe, prompt, call):
        """Runs the pipeline for one step and returns the network's arguments but for state and timestep."""
        probe = _Probe.for_model(pipe.scheduler.config)
        seen = []

        def note(_, arguments, named):
            names = inspect.signature(self.network.forward).bind(*arguments, **named).arguments
            extra = names.pop("kwargs", {})
            seen.append({**names, **extra})

        kept, pipe.scheduler = pipe.scheduler, probe
        hook = self.network.register_forward_pre_hook(note, with_kwargs=True)
        bar = getattr(pipe, "_progress_bar_config", {})
        pipe.set_progress_bar_config(disable=True)
        try:
            pipe(prompt=prompt, num_inference_steps=1, output_type="latent", **call)
        finally:
            hook.remove()
            pipe.scheduler, pipe._progress_bar_config = kept, bar
        return self._understand(pipe, probe, seen, call)

    def _understand(self, pipe, probe, seen, call):
        if len(seen) != 1:
            raise NotImplementedError(f"{type(pipe).__name__} calls its network {len(seen)} times a step; one is known")
        arguments = seen[0]
        name = next(iter(inspect.signature(self.network.forward).parameters))
        state, told = arguments.pop(name), arguments.pop("timestep")
        self._names = (name,)
        self._repeat = state.shape[0] // probe.state.shape[0]
        self._guidance = call.get("guidance_scale", getattr(pipe, "guidance_scale", None))
        self._told = float(torch.as_tensor(told).flatten()[0]) / float(probe.timesteps[0])
        # Pipelines may round what they tell to their own precision; the factor itself is 1 or 1/1000.
        self._told = min((1.0, 1e-3), key=lambda factor: abs(factor / self._told - 1.0))
        self._flow, self._kind = probe._flow, probe.config.prediction_type
        self._embedded = arguments.get("guidance") is not None
        # What the pipeline would shift time by at this size, or its scheduler at any.
        fixed = getattr(pipe.scheduler.config, "shift", None) if self._flow else None
        self._shift = math.exp(probe.mu) if probe.mu is not None else fixed
        self._train_timesteps = probe.config.num_train_timesteps
        self._log_alphas = None if self._flow else probe._table.log_alphas
        self.shape = tuple(probe.state.shape[1:])
        self.prediction = "velocity" if self._flow else "denoised"
        last = self._train_timesteps - 1
        self.sigma_range = (0.0, 1.0) if self._flow else (probe._table.sigma(0), probe._table.sigma(last))
        self._recorded = (probe.state, probe.solver.times[0], probe.slope)
        return arguments

    @torch.no_grad()
    def _check_replay(self):
        """The replayed network must say what the pipeline's step was given, or something here is not understood."""
        state, level, slope = self._recorded
        began = time.perf_counter()
        value = self(state, level, [len(self._conditions) - 1])
        self.seconds = time.perf_counter() - began
        ours = value if self._flow else (state.to(value.dtype) - value) / level
        error = (ours - slope.to(ours.dtype)).norm() / slope.to(ours.dtype).norm().clamp(min=1e-12)
        if not error < (1e-3 if self.network.dtype == torch.float32 else 5e-2):
            raise NotImplementedError(
                f"the pipeline does more with its network's output than is known ({error:.1e} off)"
            )


class _Probe(DyWeightScheduler):
    """One Euler step that remembers what it was given."""

    @classmethod
    def for_model(cls, config):
        flow = _is_flow(config)
        ends = [0.75, 0.0] if flow else [2.0, 0.1]
        record = {
            "format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": 1, "steps": 1, "order": 1, "afs": False,
            "prediction": "velocity" if flow else "denoised", "schedule": {"kind": "explicit", "sigmas": ends},
            "sigma_min": ends[1], "sigma_max": ends[0], "weights": [[1.0]], "time_scale": [],
        }  # fmt: skip
        return cls._from_solver(SolverFile(record), config, {})

    mu = None

    def set_timesteps(self, num_inference_steps=None, device=None, sigmas=None, mu=None):
        self.mu = mu
        super().set_timesteps(num_inference_steps, device, sigmas, mu)

    def step(self, model_output, timestep, sample, **options):
        result = super().step(model_output, timestep, sample, **options)
        self.state, self.slope = sample, self._slopes[-1]
        return result


def train_pipeline(pipe, prompts, nfe, guidance_scale=None, *, call=None, **options):
    """Learns a solver for a pipeline's own network, where it is, and sets it as the pipeline's scheduler.

    nfe: network calls of the solver, counted as everywhere: two per evaluation under guidance.
    call: further arguments of the pipeline (height, width, negative_prompt, …).
    options: those of `dyweight.train`: out, cache, resume, comm, iters, batch, lr, teacher_nfe, seed, …
    Prints beforehand how long it will take, and returns the `dyweight.Solver`.
    """
    training = _native_part()
    denoiser = PipelineDenoiser(pipe, prompts, guidance_scale, **(call or {}))
    if nfe % denoiser.calls:
        raise ValueError(f"nfe is {nfe}, but an evaluation under guidance is {denoiser.calls} calls")
    model = denoiser.model()
    options = {**denoiser.grid(options), **options}
    shown = {k: v for k, v in options.items() if k not in inspect.signature(training.train).parameters}
    comm = options.get("comm")
    if comm is None or comm.rank == 0:
        print(training.estimate(model, nfe, seconds=denoiser.seconds, **shown))
    solver = training.train(model, nfe, guidance=denoiser.guidance, **options)
    pipe.scheduler = DyWeightScheduler._from_solver(SolverFile(solver.record), pipe.scheduler.config, {})
    return solver


def _native_part():
    try:
        return importlib.import_module("dyweight.training")
    except ImportError as error:
        raise ImportError(
            "training needs the compiled part of the package (dyweight._native), which is not installed here;"
            " solver files, presets and the scheduler work without it"
        ) from error


def _batch(conditions, repeat, device):
    """Arguments of several samples as one call. A tensor with `repeat` rows belongs to the sample, any other to all."""
    first = conditions[0]
    if isinstance(first, dict):
        return {key: _batch([c[key] for c in conditions], repeat, device) for key in first}
    if not isinstance(first, torch.Tensor):
        return first
    if first.ndim == 0 or first.shape[0] != repeat:
        return first.to(device)
    return torch.cat([torch.stack([c[r] for c in conditions]) for r in range(repeat)]).to(device)


def _tensor(output):
    """The tensor in what a diffusers network returns."""
    if isinstance(output, torch.Tensor):
        return output
    return output[0] if isinstance(output, tuple) else output.sample


@contextlib.contextmanager
def _frozen(network):
    """Weights need no gradients, and what those would keep is most of the memory."""
    learning = [p for p in network.parameters() if p.requires_grad]
    for p in learning:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in learning:
            p.requires_grad_(True)
