"""Solvers learned for a pipeline in place: real pipeline code, tiny random networks."""

import diffusers
import numpy as np
import pytest
import tiny
import torch
from test_pipelines import FLUX_SIZE

import dyweight
from dyweight.diffusers import DyWeightScheduler, train_pipeline
from dyweight.pipeline import PipelineDenoiser

PROMPTS = ["a", "b c", "d"]
SHORT = {"iters": 20, "batch": 4, "validation": 4, "validate_every": 5, "memory": "keep", "progress": False}


def latents(pipe, noise, steps, **call):
    scaled = noise * pipe.scheduler.init_noise_sigma if hasattr(pipe, "unet") else noise
    initial = getattr(pipe.scheduler, "initial_latents", None)
    given = noise if hasattr(pipe, "unet") else (initial(noise) if initial else scaled)
    return pipe(PROMPTS, num_inference_steps=steps, latents=given, output_type="latent", **call).images


def test_a_pipeline_learns_its_own_solver(tmp_path, capsys):
    """At equal calls the learned solver is closer to 50 steps than the multistep schedulers of diffusers."""
    pipe = tiny.stable_diffusion(tmp_path)
    config, noise = pipe.scheduler.config, torch.randn(3, 4, 8, 8, generator=torch.manual_seed(3))
    pipe.scheduler = diffusers.DPMSolverMultistepScheduler.from_config(config)
    target = latents(pipe, noise, 50, guidance_scale=5.0)
    distances = {}
    for kind in (diffusers.DPMSolverMultistepScheduler, diffusers.UniPCMultistepScheduler):
        pipe.scheduler = kind.from_config(config)
        distances[kind.__name__] = (latents(pipe, noise, 5, guidance_scale=5.0) - target).norm().item()
    pipe.scheduler = diffusers.EulerDiscreteScheduler.from_config(config)
    solver = train_pipeline(
        pipe, PROMPTS, 10, 5.0, out=tmp_path / "solver.json", afs=False, schedule="discrete", beta_table="sd15",
        teacher_nfe=80, **SHORT,
    )
    said = capsys.readouterr().out
    assert "an iteration has 4 pairs of 40 evaluations by the teacher and 5 × 3 by the student" in said, said
    assert isinstance(pipe.scheduler, DyWeightScheduler) and pipe.scheduler.calls == 5
    assert (solver.nfe, solver.record["guidance"], solver.prediction) == (10, 5.0, "denoised")
    again = DyWeightScheduler.from_file(tmp_path / "solver.json", config)
    assert again.solver.times == pipe.scheduler.solver.times
    distances["learned"] = (latents(pipe, noise, 5, guidance_scale=5.0) - target).norm().item()
    assert distances["learned"] < 0.8 * min(d for name, d in distances.items() if name != "learned"), distances


def test_a_flow_pipeline_keeps_its_own_grid(tmp_path):
    pipe = tiny.flux(tmp_path)
    solver = train_pipeline(pipe, PROMPTS, 4, 3.5, call=FLUX_SIZE, teacher_nfe=16, **{**SHORT, "iters": 3})
    assert solver.prediction == "velocity" and solver.record["guidance"] == 3.5
    schedule = solver.record["schedule"]
    assert schedule["kind"] == "flow" and schedule["shift"] != 1.0
    assert pipe.scheduler.calls == 4
    image = pipe("a", num_inference_steps=4, guidance_scale=3.5, output_type="latent", **FLUX_SIZE).images
    assert torch.isfinite(image).all()


@pytest.mark.parametrize("prediction_type", ["epsilon", "v_prediction"])
def test_the_package_samples_what_the_pipeline_samples(tmp_path, prediction_type):
    """The learned scheduler inside the pipeline, and `dyweight.sample` on its network: the same latents."""
    pipe = tiny.stable_diffusion(tmp_path, prediction_type)
    denoiser = PipelineDenoiser(pipe, PROMPTS, 5.0)
    solver = train_pipeline(pipe, PROMPTS, 8, 5.0, teacher_nfe=24, **{**SHORT, "iters": 3})
    noise = torch.randn(3, 4, 8, 8, generator=torch.manual_seed(3))
    ours = dyweight.sample(denoiser.model(), solver, noise, conditions=[0, 1, 2])
    theirs = latents(pipe, noise, pipe.scheduler.calls, guidance_scale=5.0)
    assert np.abs((ours - theirs).numpy()).max() < 1e-4 * theirs.abs().max()


def test_a_wrong_number_of_calls_is_said(tmp_path):
    with pytest.raises(ValueError, match="nfe is 5"):
        train_pipeline(tiny.stable_diffusion(tmp_path), PROMPTS, 5, 7.5)
    with pytest.raises(TypeError, match="no option 'itres'"):
        train_pipeline(tiny.stable_diffusion(tmp_path), PROMPTS, 6, 7.5, itres=3)
