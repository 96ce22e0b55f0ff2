"""Real pipeline code of diffusers, with tiny random networks and with the model the Rust sampler has in closed form."""

import contextlib
import copy
import pickle

import diffusers
import numpy as np
import pytest
import tiny
import torch
from reference import Mixture, sample
from torch.utils._python_dispatch import TorchDispatchMode

from dyweight.presets import record as preset_record
from dyweight.diffusers import DyWeightScheduler
from dyweight.solver_file import NoiseTable, SolverFile

def preset(name):
    return SolverFile(preset_record(name))


FLUX_SIZE = {"height": 16, "width": 16, "max_sequence_length": 16}
AFS = {  # a solver with an analytical first step, on the levels of Stable Diffusion
    "format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": 3, "steps": 4, "order": 3, "afs": True,
    "prediction": "denoised", "schedule": {"kind": "discrete", "table": "sd15", "rho": 1.0}, "sigma_min": 0.03,
    "sigma_max": 14.0, "weights": [[1.05], [-0.4, 1.4], [0.3, -1.2, 1.8], [0.35, -1.3, 1.9]], "time_scale": [0.9, 1.0, 0.95],
}  # fmt: skip
FLOW_AFS = {
    **AFS,
    "prediction": "velocity",
    "schedule": {"kind": "flow", "shift": 1.5},
    "sigma_min": 0.0,
    "sigma_max": 1.0,
}


class MixtureUNet(diffusers.UNet2DConditionModel):
    """ε or v of the spiral, pair by pair of entries."""

    def forward(self, sample, timestep, encoder_hidden_states, return_dict=True, **_):
        level = NoiseTable.scaled_linear(0.00085, 0.012).sigma(float(timestep))
        root = np.sqrt(1 + level**2)
        x = (sample.double() * root).reshape(-1, 2)
        data = Mixture.spiral()(x, level)
        noise = (x - data) / level
        output = noise if self.says == "epsilon" else (noise - level * data) / root
        return (output.reshape(sample.shape).to(sample.dtype),)


class MixtureTransformer(diffusers.FluxTransformer2DModel):
    """The velocity of the spiral, pair by pair of entries."""

    def forward(self, hidden_states, timestep, return_dict=True, **_):
        pairs = hidden_states.double().reshape(-1, 2)
        velocity = Mixture.spiral(flow=True)(pairs, float(timestep[0]))
        return (velocity.reshape(hidden_states.shape).to(hidden_states.dtype),)


def _mixture_sd(folder, says="epsilon"):
    config = tiny.unet().config
    network = MixtureUNet.from_config(config)
    network.says = says
    return tiny.stable_diffusion(folder, says, network=network)


def _noise(*shape):
    return torch.randn(*shape, generator=torch.manual_seed(4))


SD_SOLVERS = ["discrete", "discrete-no-afs", "preset:ms-coco-nfe8", "preset:ms-coco-nfe16", "preset:ms-coco-nfe20"]
FLUX_SOLVERS = ["flow", "flow-shift", "flow-afs", "preset:flux-nfe3", "preset:flux-nfe7"]


def _scheduler(name, pipe, trained):
    if name.startswith("preset:"):
        return name, DyWeightScheduler.from_preset(name.removeprefix("preset:"), pipe.scheduler.config)
    return trained(name), DyWeightScheduler.from_file(trained(name), pipe.scheduler.config)


@pytest.mark.parametrize("says", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("name", SD_SOLVERS)
def test_stable_diffusion_is_the_rust_sampler(name, says, trained, trajectory, tmp_path, record_property):
    pipe = _mixture_sd(tmp_path, says)
    weights, pipe.scheduler = _scheduler(name, pipe, trained)
    noise = _noise(1, 4, 8, 8)
    latents = pipe(
        "a", num_inference_steps=pipe.scheduler.calls, guidance_scale=1.0, latents=noise, output_type="latent"
    )
    theirs = trajectory(weights, noise.reshape(-1, 2, 1, 1).numpy())[-1]
    _close(latents.images.reshape(-1, 2, 1, 1), theirs, record_property)


@pytest.mark.parametrize("name", FLUX_SOLVERS)
def test_flux_is_the_rust_sampler(name, trained, trajectory, tmp_path, record_property):
    pipe = tiny.flux(tmp_path, network=MixtureTransformer.from_config(tiny.transformer().config))
    weights, pipe.scheduler = _scheduler(name, pipe, trained)
    noise = _noise(1, 16, 16)
    latents = pipe("a", num_inference_steps=pipe.scheduler.calls, output_type="latent", **FLUX_SIZE,
                   latents=pipe.scheduler.initial_latents(noise))  # fmt: skip
    theirs = trajectory(weights, noise.reshape(-1, 2, 1, 1).numpy(), "mixture-flow")[-1]
    _close(latents.images.reshape(-1, 2, 1, 1), theirs, record_property)


def _close(ours, theirs, record_property):
    error = np.abs(ours.double().numpy() - theirs).max()
    record_property("error", error)
    print(f"error {error:.1e}")
    assert error < 1e-5


class Listener:
    """Writes down what the network is asked and answers, and the state a run starts from."""

    def __init__(self, pipe, guidance=None):
        self.told, self.outputs, self.guidance, self.begun = [], [], guidance, None
        network = getattr(pipe, "unet", None) or pipe.transformer
        network.register_forward_hook(self._note, with_kwargs=True)
        step = pipe.scheduler.step

        def first(output, t, x, **options):
            if self.begun is None:
                i = pipe.scheduler.index_for_timestep(t) + pipe.scheduler._first
                outer = pipe.scheduler.process.outer(pipe.scheduler.solver.levels[i])
                self.begun = x.double().numpy() / outer
            return step(output, t, x, **options)

        pipe.scheduler.step = first

    def _note(self, _, arguments, named, output):
        timestep = named["timestep"] if "timestep" in named else arguments[1]
        self.told.append(float(torch.as_tensor(timestep).flatten()[0]))
        output = output[0].double().numpy()
        if self.guidance is not None:
            without, given = np.split(output, 2)
            output = without + self.guidance * (given - without)
        self.outputs.append(output)

    def replay(self, solver, kind, start=None):
        """The restated method on the same outputs."""
        start = int(solver.afs) if start is None else start

        def predict(x, level, i):
            output = self.outputs[i - start]
            if kind == "velocity":
                return output
            if kind == "epsilon":
                return x - level * output
            return x / (1 + level**2) - level / np.sqrt(1 + level**2) * output

        return lambda noise, state: sample(solver, predict, noise, 0 if state is None else start, state)[-1]


PIPELINES = {
    "sd-epsilon": (lambda f: tiny.stable_diffusion(f), "epsilon", {"guidance_scale": 7.5}),
    "sd-v": (lambda f: tiny.stable_diffusion(f, "v_prediction"), "v_prediction", {"guidance_scale": 3.0}),
    "sd-unguided": (lambda f: tiny.stable_diffusion(f), "epsilon", {"guidance_scale": 1.0}),
    "sdxl": (tiny.sdxl, "epsilon", {"guidance_scale": 5.0}),
    "flux": (tiny.flux, "velocity", FLUX_SIZE),
}


@pytest.mark.parametrize("solver", ["preset", "afs"])
@pytest.mark.parametrize("name", PIPELINES)
def test_random_networks_follow_the_restated_method(name, solver, tmp_path):
    make, kind, call = PIPELINES[name]
    pipe = make(tmp_path)
    if solver == "preset":
        chosen = preset("flux-nfe5" if kind == "velocity" else "ms-coco-nfe16")
    else:
        chosen = SolverFile(FLOW_AFS if kind == "velocity" else AFS)
    pipe.scheduler = DyWeightScheduler._from_solver(chosen, pipe.scheduler.config, {})
    noise = _noise(2, *((16, 16) if kind == "velocity" else (4, 8, 8)))
    start = pipe.scheduler.initial_latents(noise) if kind == "velocity" else noise
    guidance = call.get("guidance_scale") if call.get("guidance_scale", 1.0) > 1 else None
    listener = Listener(pipe, guidance)
    ours = pipe(["a", "b c"], num_inference_steps=chosen.calls, latents=start, output_type="latent", **call).images
    theirs = listener.replay(chosen, kind)(noise.double().numpy(), None)
    assert len(listener.outputs) == chosen.calls, "an analytical first step costs no call"
    error, size = np.abs(ours.double().numpy() - theirs).max(), np.abs(theirs).max()
    assert error < 1e-5 * max(size, 1.0), f"{error:.1e} of {size:.2g}"


def test_networks_are_told_fractions(tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    pipe.scheduler = DyWeightScheduler.from_preset("ms-coco-nfe16", pipe.scheduler.config)
    listener = Listener(pipe, 7.5)
    pipe("a", num_inference_steps=8, output_type="latent")
    table = NoiseTable.scaled_linear(0.00085, 0.012)
    np.testing.assert_allclose(listener.told, [table.timestep(v) for v in preset("ms-coco-nfe16").levels], rtol=1e-6)
    assert all(told % 1 for told in listener.told)


@pytest.mark.parametrize("strength", [0.35, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("solver", ["preset", "afs"])
@pytest.mark.parametrize("name", ["sd", "flux"])
def test_image_to_image(name, solver, strength, tmp_path):
    image = torch.rand(1, 3, 16, 16, generator=torch.manual_seed(5))
    if name == "sd":
        pipe, kind = tiny.stable_diffusion(tmp_path, kind=diffusers.StableDiffusionImg2ImgPipeline), "epsilon"
        chosen, call = preset("ms-coco-nfe16") if solver == "preset" else SolverFile(AFS), {"guidance_scale": 4.0}
    else:
        pipe, kind = tiny.flux(tmp_path, diffusers.FluxImg2ImgPipeline), "velocity"
        chosen, call = preset("flux-nfe7") if solver == "preset" else SolverFile(FLOW_AFS), FLUX_SIZE
    pipe.scheduler = DyWeightScheduler._from_solver(chosen, pipe.scheduler.config, {})
    listener = Listener(pipe, call.get("guidance_scale"))
    ours = pipe(prompt="a", image=image, strength=strength, num_inference_steps=chosen.calls, output_type="latent",
                generator=torch.manual_seed(0), **call).images  # fmt: skip
    begin = chosen.calls - min(int(chosen.calls * strength), chosen.calls) if name == "sd" else int(
        max(chosen.calls - chosen.calls * strength, 0))  # fmt: skip
    start = begin + int(chosen.afs)
    assert len(listener.outputs) == chosen.calls - begin
    state = listener.begun
    if chosen.afs and begin == 0:
        # As if the state had come out of the analytical step.
        growth = 1 + chosen.length(0) * chosen.weights[0][0] * chosen.analytic_slope
        theirs = sample(chosen, lambda x, level, i: _said(listener, kind, x, level, i - 1), None, 0, state / growth)[-1]
    else:
        theirs = listener.replay(chosen, kind, start)(None, state)
    size = np.abs(theirs).max()
    assert np.abs(ours.double().numpy() - theirs).max() < 1e-5 * max(size, 1.0)


def _said(listener, kind, x, level, j):
    return listener.outputs[j] if kind == "velocity" else x - level * listener.outputs[j]


def test_noise_is_added_where_the_state_is():
    """The state of a call is at T, not at the level the network is told."""
    data, noise = torch.ones(1, 4, 2, 2), torch.full((1, 4, 2, 2), 2.0)
    for record, signal in ((AFS, lambda t: 1.0), (FLOW_AFS, lambda t: 1.0 - t)):
        scheduler = DyWeightScheduler._from_solver(SolverFile(record), None, {})
        for j, t in enumerate(scheduler.timesteps):
            time = scheduler.solver.times[j + 1]
            held = scheduler.process.outer(scheduler.solver.levels[j + 1])
            for noised in (scheduler.add_noise(data, noise, t[None]), scheduler.scale_noise(data, t[None], noise)):
                np.testing.assert_allclose(noised, np.full(data.shape, held * (signal(time) + 2 * time)), rtol=1e-6)


def test_inpainting_keeps_what_is_not_masked(tmp_path):
    pipe = tiny.stable_diffusion(tmp_path, kind=diffusers.StableDiffusionInpaintPipeline)
    pipe.scheduler = DyWeightScheduler.from_preset("ms-coco-nfe12", pipe.scheduler.config)
    mask = torch.zeros(1, 1, 16, 16)
    mask[..., 8:] = 1
    image = torch.rand(1, 3, 16, 16, generator=torch.manual_seed(5))
    call = {"prompt": "a", "image": image, "mask_image": mask, "num_inference_steps": 6, "strength": 0.99,
            "height": 16, "width": 16, "output_type": "latent"}  # fmt: skip
    one, two = (pipe(**call, generator=torch.manual_seed(0)).images for _ in range(2))
    assert torch.equal(one, two)
    encoded = pipe.vae.encode(2 * image - 1).latent_dist.sample(torch.manual_seed(0)) * pipe.vae.config.scaling_factor
    assert (one - encoded)[..., 4:].abs().max() > 0.1
    assert (one - encoded)[..., :4].abs().mean() < 0.5


def test_a_change_by_the_pipeline_is_taken_up_and_the_rest_stays_precise():
    scheduler = DyWeightScheduler.from_preset("ms-coco-nfe8")
    scheduler.set_timesteps(4)
    x = (torch.randn(1, 4, 4, 4) * scheduler.init_noise_sigma).bfloat16()
    t = scheduler.timesteps
    x = scheduler.step(torch.randn(1, 4, 4, 4).bfloat16(), t[0], x).prev_sample
    precise = scheduler._state.clone()
    changed = x.clone()
    changed[..., :2] = 7.0
    recalled = scheduler._recall(changed)
    outer = scheduler.process.outer(scheduler.solver.levels[1])
    assert torch.equal(recalled[..., 2:], precise[..., 2:])
    torch.testing.assert_close(recalled[..., :2], torch.full_like(recalled[..., :2], 7.0 / outer))


def test_half_precision_rounds_what_is_returned_and_nothing_else():
    outputs = [torch.randn(1, 4, 8, 8, generator=torch.manual_seed(i)).bfloat16() for i in range(8)]
    start = torch.randn(1, 4, 8, 8, generator=torch.manual_seed(9)).bfloat16()
    final = {}
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        scheduler = DyWeightScheduler.from_preset("ms-coco-nfe16")
        scheduler.set_timesteps(8)
        x = start.to(dtype)
        for output, t in zip(outputs, scheduler.timesteps):
            x = scheduler.step(output.to(dtype), t, x).prev_sample
            assert x.dtype == dtype
        final[dtype] = scheduler._state
        assert all(slope.dtype == torch.promote_types(dtype, torch.float32) for slope in scheduler._slopes)
    assert torch.equal(final[torch.bfloat16], final[torch.float32])
    assert (final[torch.float32] - final[torch.float64]).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["sd-epsilon", "sd-v", "flux"])
def test_half_precision_pipelines(name, tmp_path):
    make, kind, call = PIPELINES[name]
    images = {}
    for dtype in (torch.float32, torch.bfloat16):
        pipe = make(tmp_path).to(dtype)
        pipe.scheduler = DyWeightScheduler.from_preset(
            "flux-nfe5" if kind == "velocity" else "ms-coco-nfe12", pipe.scheduler.config
        )
        noise = _noise(1, *((16, 16) if kind == "velocity" else (4, 8, 8))).to(dtype)
        images[dtype] = pipe(
            "a", num_inference_steps=pipe.scheduler.calls, latents=noise, output_type="latent", **call
        ).images
        assert images[dtype].dtype == dtype and pipe.scheduler._state.dtype == torch.float32
    one, two = images[torch.float32], images[torch.bfloat16].float()
    assert (one - two).abs().max() < 0.05 * one.abs().max()


@pytest.mark.parametrize("steps", [4, 7, 9, 50])
def test_another_number_of_steps_is_refused(steps, tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    pipe.scheduler = DyWeightScheduler.from_preset("ms-coco-nfe16", pipe.scheduler.config)
    with pytest.raises(ValueError, match=f"nfe 16 with guidance.*must be 8, not {steps}"):
        pipe("a", num_inference_steps=steps)


def test_flux_grids_belong_to_the_solver(tmp_path):
    pipe = tiny.flux(tmp_path)
    pipe.scheduler = DyWeightScheduler.from_preset("flux-nfe3", pipe.scheduler.config)
    assert pipe.scheduler.config.use_flow_sigmas
    with pytest.raises(ValueError, match="must be 3, not 28"):
        pipe("a", **FLUX_SIZE)
    scheduler = pipe.scheduler
    scheduler.set_timesteps(sigmas=np.linspace(1, 1 / 3, 3))
    with warned() as messages:
        scheduler.set_timesteps(sigmas=[1.0, 0.9, 0.1])
    assert len(messages) == 1 and "belongs to the solver" in messages[0]
    with pytest.raises(ValueError, match="must be 3, not 2"):
        scheduler.set_timesteps(sigmas=[1.0, 0.5])


def test_a_flow_pipeline_that_does_not_scale_its_noise_is_told(tmp_path):
    pipe = tiny.flux(tmp_path)
    pipe.scheduler = DyWeightScheduler._from_solver(SolverFile(FLOW_AFS), pipe.scheduler.config, {})
    with pytest.raises(ValueError, match="initial_latents"):
        pipe("a", num_inference_steps=3, **FLUX_SIZE)


def test_solver_and_model_must_be_of_one_kind(tmp_path):
    with pytest.raises(ValueError, match="learned for a flow"):
        DyWeightScheduler.from_preset("flux-nfe3", tiny.stable_diffusion(tmp_path).scheduler.config)
    with pytest.raises(ValueError, match="trained on a flow"):
        DyWeightScheduler.from_preset("ms-coco-nfe8", tiny.flux(tmp_path).scheduler.config)
    with pytest.raises(ValueError, match="prediction_type"):
        DyWeightScheduler.from_preset("flux-nfe3", prediction_type="epsilon")
    with pytest.raises(ValueError, match="noise table"):
        DyWeightScheduler.from_preset("ms-coco-nfe20")
    with pytest.raises(ValueError, match="no solver"):
        DyWeightScheduler.from_config(tiny.TABLE)


@pytest.mark.parametrize("name", ["sd-v", "flux"])
def test_saving_and_loading_keeps_the_solver(name, tmp_path):
    make, kind, call = PIPELINES[name]
    pipe = make(tmp_path / "tokens")
    chosen = preset("flux-nfe5") if kind == "velocity" else SolverFile(AFS)
    pipe.scheduler = DyWeightScheduler._from_solver(chosen, pipe.scheduler.config, {})
    noise = _noise(1, *((16, 16) if kind == "velocity" else (4, 8, 8)))
    call = {"num_inference_steps": chosen.calls, "latents": noise, "output_type": "latent", **call}
    before = pipe("a", **call).images
    pipe.save_pretrained(tmp_path / "saved")
    loaded = diffusers.DiffusionPipeline.from_pretrained(tmp_path / "saved")
    loaded.set_progress_bar_config(disable=True)
    assert type(loaded.scheduler) is DyWeightScheduler
    assert loaded.scheduler.solver.record == chosen.record
    assert loaded.scheduler.solver.times == chosen.times
    assert loaded.scheduler.config.prediction_type == pipe.scheduler.config.prediction_type
    assert (loaded("a", **call).images - before).abs().max() < 1e-5
    again = DyWeightScheduler.from_config(loaded.scheduler.config)
    assert again.solver.times == chosen.times and again.config.beta_start == pipe.scheduler.config.beta_start


def test_going_back_to_another_scheduler(tmp_path):
    pipe = tiny.stable_diffusion(tmp_path, "v_prediction")
    before = dict(pipe.scheduler.config)
    pipe.scheduler = DyWeightScheduler.from_preset("ms-coco-nfe8", pipe.scheduler.config)
    back = diffusers.EulerDiscreteScheduler.from_config(pipe.scheduler.config)
    for key in ("prediction_type", "beta_start", "beta_end", "beta_schedule", "steps_offset"):
        assert back.config[key] == before[key]


@pytest.mark.parametrize("options", [
    {"beta_schedule": "linear"}, {"beta_schedule": "squaredcos_cap_v2"}, tiny.TABLE,
    {**tiny.TABLE, "rescale_betas_zero_snr": True}, {"trained_betas": [0.01 + 0.0001 * i for i in range(100)]},
])  # fmt: skip
def test_noise_tables_are_those_of_diffusers(options):
    count = len(options.get("trained_betas", range(1000)))
    theirs = diffusers.EulerDiscreteScheduler(num_train_timesteps=count, **options)
    sigmas = ((1 - theirs.alphas_cumprod) / theirs.alphas_cumprod).sqrt()
    ours = DyWeightScheduler._from_solver(SolverFile(AFS), theirs.config, {})
    found = [ours.process.table.sigma(t) for t in range(count)]
    np.testing.assert_allclose(found[:-1], sigmas[:-1].double(), rtol=5e-4)
    np.testing.assert_allclose(found[-1], sigmas[-1].double(), rtol=1e-3)


@contextlib.contextmanager
def warned():
    """What the scheduler warns of."""
    logger = diffusers.utils.logging.get_logger("dyweight.scheduler")
    messages = []
    logger.warning, kept = messages.append, logger.warning
    try:
        yield messages
    finally:
        logger.warning = kept


def test_a_solver_for_other_levels_is_worth_a_warning():
    with warned() as messages:
        DyWeightScheduler.from_preset("cifar10-nfe3", tiny.TABLE)
        DyWeightScheduler.from_preset("ms-coco-nfe20", tiny.TABLE)
    assert len(messages) == 1 and "starts at level 80" in messages[0]


def test_a_trained_solver_beats_the_solvers_of_diffusers(trained, tmp_path, run):
    """Distance to the pipeline's own result of 50 steps, at equal calls."""
    weights = tmp_path / "solver.json"
    run("train", "--model", "mixture", "--nfe", 5, "--schedule", "discrete", "--beta-table", "sd15", "--iters", 400,
        "--batch", 32, "--out", weights)  # fmt: skip
    pipe = _mixture_sd(tmp_path)
    config, noise = pipe.scheduler.config, _noise(8, 4, 8, 8)

    def latents(scheduler, steps):
        pipe.scheduler = scheduler
        return pipe(
            ["a"] * 8, num_inference_steps=steps, guidance_scale=1.0, latents=noise, output_type="latent"
        ).images

    target = latents(diffusers.DPMSolverMultistepScheduler.from_config(config), 50)
    distance = {
        name: float((latents(scheduler, 5) - target).pow(2).mean())
        for name, scheduler in {
            "dpm++2m": diffusers.DPMSolverMultistepScheduler.from_config(config),
            "unipc": diffusers.UniPCMultistepScheduler.from_config(config),
            "dyweight": DyWeightScheduler.from_file(weights, config),
        }.items()
    }
    print(distance)
    assert distance["dyweight"] < min(distance["dpm++2m"], distance["unipc"])


class NoWaiting(TorchDispatchMode):
    """Forbids what would make a program wait for its device."""

    WAITS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in self.WAITS, f"{name} waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("own", [
    diffusers.EulerDiscreteScheduler(**tiny.TABLE), diffusers.DDIMScheduler(**tiny.TABLE, prediction_type="v_prediction"),
    diffusers.DDIMScheduler(thresholding=True), diffusers.FlowMatchEulerDiscreteScheduler(),
])  # fmt: skip
def test_steps_do_not_wait_for_the_device(own):
    flow = isinstance(own, diffusers.FlowMatchEulerDiscreteScheduler)
    scheduler = DyWeightScheduler.from_preset("flux-nfe5" if flow else "ms-coco-nfe16", own)
    scheduler.set_timesteps(scheduler.calls)
    noise = _noise(2, 4, 8, 8)
    with NoWaiting():
        x = noise * scheduler.init_noise_sigma
        for i, t in enumerate(scheduler.timesteps):
            shown = scheduler.scale_model_input(x, t)
            x = scheduler.step(0.1 * shown, t, x if i != 2 else x + 1, return_dict=False)[0]
    assert torch.isfinite(x).all()


def _learned_on(own, **training):
    name, config = type(own).__name__, dict(own.config)
    return SolverFile({**preset("ms-coco-nfe16").record, "training": {"scheduler": {"_class_name": name, **config}, **training}})


def test_a_solver_learned_on_something_else_is_worth_a_warning(tmp_path):
    sd, linear = diffusers.EulerDiscreteScheduler(**tiny.TABLE), diffusers.DDIMScheduler()
    with warned() as messages:
        DyWeightScheduler._from_solver(_learned_on(sd), diffusers.DDIMScheduler(**tiny.TABLE), {})
        assert not messages
        DyWeightScheduler._from_solver(_learned_on(linear), sd, {})
        assert len(messages) == 1 and "another noise table" in messages[0]
        DyWeightScheduler._from_solver(_learned_on(diffusers.EDMEulerScheduler()), sd, {})
        assert len(messages) == 2 and "another kind of process (edm) than this model's (table)" in messages[1]


def test_another_model_and_other_guidance_are_worth_a_warning(tmp_path):
    from dyweight.identity import digest, networks

    pipe, other = tiny.stable_diffusion(tmp_path / "a"), tiny.stable_diffusion(tmp_path / "b")
    other.unet.conv_in.weight.data.mul_(1.1)
    file = _learned_on(
        pipe.scheduler, pipeline="StableDiffusionPipeline", dtype="torch.float32", network=digest(networks(pipe))
    )
    with warned() as messages:
        DyWeightScheduler._from_solver(file, other, {})
        assert len(messages) == 1 and "other weights" in messages[0]
        DyWeightScheduler._from_solver(file, tiny.sdxl(tmp_path / "c"), {})
        assert len(messages) == 2 and "learned for StableDiffusionPipeline, and this is StableDiffusionXL" in messages[1]
        pipe.scheduler = DyWeightScheduler._from_solver(SolverFile({**file.record, "guidance": 7.5}), pipe, {})
        for guidance in (7.5, 1.0, 1.0):
            pipe("a", num_inference_steps=8, guidance_scale=guidance, output_type="latent")
        assert len(messages) == 3 and "guidance scale of 7.5, and is used with 1" in messages[2]
    copy.deepcopy(pipe.scheduler)
    pickle.loads(pickle.dumps(pipe.scheduler))
