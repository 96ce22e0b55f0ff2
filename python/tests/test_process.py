"""The process of a pipeline is what diffusers' own scheduler says it is, or it is refused by name."""

import inspect

import diffusers
import numpy as np
import pytest
import torch
from exact import answer

from dyweight.diffusers import DyWeightScheduler, UnknownProcess, process_of
from dyweight.learning import first_order
from dyweight.process import adds_noise

STEPS = 6
SD = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
# Everything that was once taken for something else without a word.
UNDERSTOOD = {
    "linear": diffusers.DDIMScheduler(clip_sample=False),
    "scaled linear": diffusers.EulerDiscreteScheduler(**SD),
    "Karras levels": diffusers.DPMSolverMultistepScheduler(**SD, use_karras_sigmas=True),
    "zero terminal SNR": diffusers.EulerDiscreteScheduler(**SD, rescale_betas_zero_snr=True, timestep_spacing="trailing"),
    "v": diffusers.DDIMScheduler(**SD, prediction_type="v_prediction", clip_sample=False),
    "continuous v (SVD)": diffusers.EulerDiscreteScheduler(
        **SD, prediction_type="v_prediction", timestep_type="continuous", use_karras_sigmas=True, sigma_min=0.002, sigma_max=700.0
    ),
    "snr shift (CogVideoX)": diffusers.CogVideoXDDIMScheduler(
        clip_sample=False, prediction_type="v_prediction", snr_shift_scale=3.0, rescale_betas_zero_snr=False
    ),
    "sigmoid": diffusers.DDPMScheduler(beta_schedule="sigmoid", clip_sample=False),
    "cosine table": diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2", clip_sample=False),
    "EDM": diffusers.EDMEulerScheduler(),
    "EDM v": diffusers.EDMDPMSolverMultistepScheduler(prediction_type="v_prediction", sigma_data=1.0, sigma_schedule="exponential"),
    "cosine angle (Stable Audio)": diffusers.CosineDPMSolverMultistepScheduler(),
    "angle (Dance Diffusion)": diffusers.IPNDMScheduler(),
    "flow": diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
    "inverted flow (Mochi, OmniGen)": diffusers.FlowMatchEulerDiscreteScheduler(invert_sigmas=True),
    "stretched flow (Qwen)": diffusers.FlowMatchEulerDiscreteScheduler(shift_terminal=0.02),
    "time and velocity reversed (MiniMax-H3)": diffusers.MiniMaxH3Scheduler(shift=3.0),
    "flow by UniPC (Wan)": diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    ),
    "noise along a flow": diffusers.UniPCMultistepScheduler(use_flow_sigmas=True, flow_shift=8.0),
}  # fmt: skip


def own_levels(scheduler):
    """Levels of a scheduler's timesteps as it has them itself."""
    timesteps = [float(t) for t in scheduler.timesteps]
    if getattr(scheduler, "sigmas", None) is None and hasattr(scheduler, "alphas_cumprod"):
        alphas = scheduler.alphas_cumprod[[int(t) for t in timesteps]].double()
        return ((1 - alphas) / alphas).sqrt().tolist()
    if isinstance(scheduler, diffusers.IPNDMScheduler):
        return (scheduler.betas / scheduler.alphas)[: len(timesteps)].tolist()
    sigmas = scheduler.sigmas[: len(timesteps)].double()
    return (1 - sigmas if scheduler.config.get("invert_sigmas") else sigmas).tolist()


# What `from_config` keeps of an earlier scheduler, and its new class does not look at.
LEFT_OVER = {
    "snr shift": (diffusers.CogVideoXDDIMScheduler(snr_shift_scale=3.0), diffusers.DPMSolverMultistepScheduler),
    "clipping": (diffusers.DDIMScheduler(clip_sample=True), diffusers.DPMSolverMultistepScheduler),
    "continuous times": (
        diffusers.EulerDiscreteScheduler(timestep_type="continuous", prediction_type="v_prediction"),
        diffusers.DPMSolverMultistepScheduler,
    ),
    "a flow's levels": (diffusers.UniPCMultistepScheduler(use_flow_sigmas=True), diffusers.EulerDiscreteScheduler),
}


@pytest.mark.parametrize("name", LEFT_OVER)
def test_settings_that_a_class_does_not_have_do_nothing(name):
    before, kind = LEFT_OVER[name]
    own = kind.from_config(before.config)
    process, known = process_of(own), inspect.signature(kind.__init__).parameters
    clean = process_of(kind(**{key: value for key, value in own.config.items() if key in known}))
    assert type(process) is type(clean) and process.clip is None
    assert [process.told(level) for level in (0.1, 1.0, 10.0)] == [clean.told(level) for level in (0.1, 1.0, 10.0)]


def test_data_predictions_are_clipped_where_the_class_clips_them():
    assert process_of(diffusers.DDIMScheduler(clip_sample=True)).clip is not None
    assert process_of(diffusers.EDMDPMSolverMultistepScheduler(thresholding=True)).clip is not None
    # These have the setting, and take no notice of it.
    assert process_of(diffusers.CogVideoXDDIMScheduler(clip_sample=True)).clip is None
    assert process_of(diffusers.UniPCMultistepScheduler(thresholding=True, predict_x0=False)).clip is None
    flow = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}
    with pytest.raises(UnknownProcess, match="thresholding"):
        process_of(diffusers.DPMSolverMultistepScheduler(**flow, thresholding=True))


def test_a_table_that_was_put_in_place_of_its_settings_is_refused():
    own = diffusers.EulerDiscreteScheduler(**SD)
    own.alphas_cumprod = own.alphas_cumprod**1.3
    with pytest.raises(UnknownProcess, match="alphas_cumprod is not that of its settings"):
        process_of(own)


def test_the_process_is_that_of_the_scheduler_that_is_there_now():
    """And not of the one that a solver was once set for."""
    first = diffusers.EulerDiscreteScheduler(**SD)
    learned = DyWeightScheduler.from_preset("ms-coco-nfe8", first)
    now = diffusers.UniPCMultistepScheduler.from_config(learned.config, prediction_type="v_prediction")
    assert process_of(now).prediction == "v_prediction"
    assert DyWeightScheduler.from_preset("ms-coco-nfe8", now).process.prediction == "v_prediction"
    with pytest.raises(UnknownProcess, match="prediction_type is 'v_prediction'.*has 'epsilon'"):
        DyWeightScheduler.from_config(now.config)
    with pytest.raises(UnknownProcess, match="of two schedulers: beta_end is 0.02 and was 0.012"):
        process_of(diffusers.DDIMScheduler.from_config(learned.config, beta_end=0.02).config)
    back = DyWeightScheduler.from_config(diffusers.UniPCMultistepScheduler.from_config(learned.config).config)
    assert back.timesteps.tolist() == learned.timesteps.tolist() and back.process.prediction == "epsilon"


def test_settings_that_a_pipeline_puts_in_place_are_there_for_it():
    """Cosmos's pipelines register a level that their scheduler's class does not have, and read it again."""
    own = diffusers.FlowMatchEulerDiscreteScheduler()
    own.register_to_config(sigma_max=80.0, final_sigmas_type="sigma_min")
    for other in (DyWeightScheduler.from_preset("flux-nfe5", own), first_order(own)):
        assert other.config.sigma_max == 80.0 and other.config.final_sigmas_type == "sigma_min"


@pytest.mark.parametrize(
    "own, noisy",
    [
        (diffusers.DPMSolverMultistepScheduler(algorithm_type="sde-dpmsolver++"), True),
        (diffusers.FlowMatchEulerDiscreteScheduler(stochastic_sampling=True), True),
        (diffusers.EulerAncestralDiscreteScheduler(), True),
        (diffusers.DPMSolverMultistepScheduler(), False),
    ],
)
def test_whether_a_scheduler_adds_noise(own, noisy):
    assert adds_noise(own) is noisy


@pytest.mark.parametrize("name", UNDERSTOOD)
@pytest.mark.parametrize("what", ["scheduler", "settings alone"])
def test_levels_and_timesteps_belong_together_as_in_diffusers(name, what):
    own = UNDERSTOOD[name]
    process = process_of(own if what == "scheduler" else dict(own.config))
    own.set_timesteps(STEPS)
    # The smallest level: two neighbours of a table lie within the rounding of an integer timestep.
    for t, level in list(zip([float(t) for t in own.timesteps], own_levels(own)))[: STEPS - 1]:
        if level > 1e4:
            continue
        # Karras's levels lie between those of a table, and diffusers rounds their timesteps.
        rounded = own.config.get("use_karras_sigmas") and own.config.get("timestep_type") != "continuous"
        assert process.told(level) == pytest.approx(t, rel=2e-3, abs=0.51 if rounded else 2e-3)
        if not rounded:
            assert process.level(t) == pytest.approx(level, rel=2e-3)


@pytest.mark.parametrize("name", [n for n in UNDERSTOOD if n not in ("angle (Dance Diffusion)", "stretched flow (Qwen)")])
def test_a_first_order_step_is_that_of_diffusers(name):
    """One step to the end of a run: what the network says becomes data as diffusers' own scheduler has it."""
    own = UNDERSTOOD[name]
    own.set_timesteps(2 if name.startswith("time and velocity") else 1)  # its steps count levels, the end's too
    process, level = process_of(own), own_levels(own)[0]
    plain = process.flow or type(own).__name__.startswith(("Euler", "EDM", "Cosine"))
    x = torch.randn(1, 3, 4, 4, generator=torch.manual_seed(1), dtype=torch.float64) * max(level, 1.0)
    said = torch.randn(1, 3, 4, 4, generator=torch.manual_seed(2), dtype=torch.float64)
    held = x if plain else x / np.sqrt(1 + level**2)
    own.scale_model_input(held, own.timesteps[0]) if hasattr(own, "scale_model_input") else None
    theirs = own.step(said, own.timesteps[0], held, return_dict=False)[0].double()
    ours = x - level * process.slope(said, x, level, level)
    assert (ours - theirs).abs().max() < 2e-3 * theirs.abs().max().clamp(min=1.0)


REFUSED = {
    "DDPMWuerstchenScheduler": (diffusers.DDPMWuerstchenScheduler(), "tell it from others by its class"),
    "LCMScheduler": (diffusers.LCMScheduler(), "few-step samplers already"),
    "DDIMInverseScheduler": (diffusers.DDIMInverseScheduler(), "from data to noise"),
    "HeliosScheduler": (diffusers.HeliosScheduler(), "its process is not known"),
    "unknown class": (diffusers.VQDiffusionScheduler(num_vec_classes=10), "its process is not known"),
    "settings of nothing": ({"seconds": 3}, "name no process"),
    "schedule": ({**SD, "beta_schedule": "laplace"}, "'laplace' is not known"),
    "levels apart from timesteps": (diffusers.EulerDiscreteScheduler(interpolation_type="log_linear"), "'log_linear' is not"),
    "prediction": (diffusers.DDIMScheduler(prediction_type="sample").config | {"prediction_type": "score"}, "'score'"),
    "mixed": (diffusers.UniPCMultistepScheduler(use_flow_sigmas=True, prediction_type="v_prediction"), "use_flow_sigmas"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_by_name(name):
    given, says = REFUSED[name]
    with pytest.raises(UnknownProcess, match=says):
        process_of(given)


def test_a_setting_nobody_knows_is_refused():
    class NewScheduler(diffusers.DDIMScheduler):
        @diffusers.configuration_utils.register_to_config
        def __init__(self, warp=1.0, clip_sample=False):
            super().__init__()

    diffusers.NewDDIM = NewScheduler
    NewScheduler.__name__ = "DDIMScheduler"
    kept, diffusers.DDIMScheduler = diffusers.DDIMScheduler, NewScheduler
    try:
        process_of(NewScheduler())
        with pytest.raises(UnknownProcess, match="warp=2.0 is not served"):
            process_of(NewScheduler(warp=2.0))
    finally:
        diffusers.DDIMScheduler = kept
        del diffusers.NewDDIM


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_many_small_steps_sample_the_exact_model(name):
    """With the exact network of N(0, 0.5²), told what it is told and shown what it is shown, a run ends at 0.5."""
    own = UNDERSTOOD[name]
    process = process_of(own)
    top, low = min(process.sigma_range[1], 100.0), 0.01
    steps = 60
    levels = [top - i / steps * top for i in range(steps)] if process.flow else list(np.geomspace(top, low, steps))
    record = {
        "format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": steps, "steps": steps, "order": 2, "afs": False,
        "prediction": "velocity" if process.flow else "denoised", "schedule": {"kind": "explicit", "sigmas": [*levels, 0.0]},
        "sigma_min": 0.0, "sigma_max": top, "weights": [[1.0]] + [[-0.5, 1.5]] * (steps - 2) + [[0.0, 1.0]], "time_scale": [],
    }  # fmt: skip
    from dyweight.solver_file import SolverFile

    scheduler = DyWeightScheduler._from_solver(SolverFile(record), own, {})
    scheduler.set_timesteps(steps)
    x = torch.randn(1, 4, 64, 64, generator=torch.manual_seed(0)) * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        shown = scheduler.scale_model_input(x, t)
        x = scheduler.step(answer(own, shown, float(t)), t, x).prev_sample
    assert float(x.std()) == pytest.approx(0.5, abs=0.015)
