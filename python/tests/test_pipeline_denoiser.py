"""A pipeline as the function a solver is learned for."""

import numpy as np
import pytest
import tiny
import torch
from test_pipelines import AFS, FLUX_SIZE

from dyweight.diffusers import DyWeightScheduler, train_pipeline
from dyweight.pipeline import PipelineDenoiser

PROMPTS = ["a", "b c", "d"]
PIPELINES = {
    "sd": (tiny.stable_diffusion, {"guidance_scale": 6.0}),
    "sd-v": (lambda f: tiny.stable_diffusion(f, "v_prediction"), {"guidance_scale": 6.0}),
    "sd-unguided": (tiny.stable_diffusion, {"guidance_scale": 1.0}),
    "sdxl": (tiny.sdxl, {"guidance_scale": 4.0}),
    "flux": (tiny.flux, {"guidance_scale": 2.0, **FLUX_SIZE}),
}


@pytest.fixture(params=PIPELINES)
def case(request, tmp_path):
    make, call = PIPELINES[request.param]
    pipe = make(tmp_path)
    return pipe, call, PipelineDenoiser(pipe, PROMPTS, **call)


def test_it_is_what_the_pipeline_computes(case):
    """Euler by hand with the function, and by the pipeline with its own Euler scheduler."""
    pipe, call, model = case
    noise = torch.randn(3, *model.shape, generator=torch.manual_seed(0))
    ours, x = pipe(PROMPTS, num_inference_steps=5, latents=noise, output_type="latent", **call).images, None
    sigmas = pipe.scheduler.sigmas.tolist()
    x = noise * pipe.scheduler.init_noise_sigma if model.prediction == "denoised" else noise
    with torch.no_grad():
        for a, b in zip(sigmas, sigmas[1:]):
            value = model(x, a, [0, 1, 2])
            x = x + (b - a) * (value if model.prediction == "velocity" else (x - value) / a)
    # Diffusers rounds the timestep in its own interpolation of σ.
    assert (ours - x).abs().max() < 2e-4 * ours.abs().max()


def test_samples_do_not_depend_on_their_neighbours(case):
    _, _, model = case
    x = torch.randn(4, *model.shape, generator=torch.manual_seed(1))
    sigma = torch.tensor([0.2, 0.4, 0.6, 0.8])
    with torch.no_grad():
        together = model(x, sigma, [2, 0, 1, 2])
        alone = torch.cat([model(x[i : i + 1], float(sigma[i]), [c]) for i, c in enumerate([2, 0, 1, 2])])
        other = model(x, sigma, [0, 0, 0, 0])
    assert (together - alone).abs().max() < 1e-5 * together.abs().max()
    assert (together - other)[0].abs().max() > 1e-6


def test_gradients_agree_with_finite_differences(case):
    _, _, model = case
    model.network.double()
    model._conditions = [_double(c) for c in model._conditions]
    x = torch.randn(2, *model.shape, dtype=torch.float64, generator=torch.manual_seed(2))
    cotangent = torch.randn(x.shape, dtype=torch.float64, generator=torch.manual_seed(3))
    sigma = torch.tensor([0.31, 0.67], dtype=torch.float64)
    value, to_x, to_sigma = model.vjp(x, sigma, cotangent, [1, 2])

    def loss(x, sigma):
        with torch.no_grad():
            return float((model(x, sigma, [1, 2]) * cotangent).sum())

    assert not value.requires_grad and all(p.requires_grad for p in model.network.parameters())
    direction, h = torch.randn(x.shape, dtype=torch.float64, generator=torch.manual_seed(4)), 1e-5
    along_x = (loss(x + h * direction, sigma) - loss(x - h * direction, sigma)) / (2 * h)
    assert float((to_x * direction).sum()) == pytest.approx(along_x, rel=1e-4)
    # The network embeds its timestep in f32: a wide difference, and a wide tolerance.
    for i in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[i] = 2e-4
        along = (loss(x, sigma + step) - loss(x, sigma - step)) / 4e-4
        assert float(to_sigma[i]) == pytest.approx(along, rel=0.05, abs=0.05 * float(to_sigma.abs().max()))


def _double(value):
    if isinstance(value, dict):
        return {k: _double(v) for k, v in value.items()}
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def test_the_pipeline_is_left_as_it_was(case):
    pipe, call, _ = case
    scheduler, bar = pipe.scheduler, pipe._progress_bar_config
    PipelineDenoiser(pipe, ["a"], **call)
    assert pipe.scheduler is scheduler and pipe._progress_bar_config == bar
    network = getattr(pipe, "unet", None) or pipe.transformer
    assert not network._forward_pre_hooks
    with pytest.raises(ValueError, match="at least one prompt"):
        PipelineDenoiser(pipe, [], **call)

    def fail(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PipelineDenoiser(pipe, ["a"], callback_on_step_end=fail, **call)
    assert pipe.scheduler is scheduler and not network._forward_pre_hooks


def test_a_pipeline_that_does_more_is_refused(tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    with pytest.raises(NotImplementedError, match="does more"):
        PipelineDenoiser(pipe, ["a"], 7.0, guidance_rescale=0.7)
