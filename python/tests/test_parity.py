"""The scheduler and the k-diffusion sampler against the Rust sampler, on the model both have in closed form."""

import numpy as np
import pytest
import torch
from conftest import TRAINED
from reference import Mixture, sample

from dyweight.diffusers import DyWeightScheduler
from dyweight.k_diffusion import sample_dyweight
from dyweight.solver_file import SolverFile

NOISE = np.random.default_rng(3).normal(size=(5, 2, 1, 1))
PRESETS = [
    "cifar10-nfe3",
    "cifar10-nfe9",
    "ms-coco-nfe8",
    "ms-coco-nfe20",
    "lsun-bedroom-nfe5",
    "flux-nfe3",
    "flux-nfe7",
]
SOLVERS = [*TRAINED, *(f"preset:{name}" for name in PRESETS)]
# f64 end to end; f32: error relative to the largest state.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(params=SOLVERS)
def case(request, run, trained, trajectory, tmp_path):
    """A solver, its model, and the Rust sampler's states."""
    weights = request.param
    if weights.startswith("preset:"):
        path = tmp_path / "preset.json"
        run("convert", weights, path)
    else:
        weights = path = trained(weights)
    solver = SolverFile.load(path)
    flow = solver.prediction == "velocity"
    return solver, Mixture.spiral(flow), trajectory(weights, NOISE, "mixture-flow" if flow else "mixture")


def test_the_restated_method_is_the_rust_sampler(case):
    solver, model, states = case
    ours = sample(solver, lambda x, level, _: model(x, level), NOISE)
    # Levels beyond the plain range of the spiral are large; the rest is rounding.
    np.testing.assert_allclose(np.stack(ours), states, atol=1e-10)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_k_diffusion_is_the_rust_sampler(case, dtype):
    solver, model, states = case
    calls, seen = [], []

    def denoiser(x, sigma, scale):
        calls.append(sigma)
        level = float(sigma[0]) if dtype == torch.float64 else sigma[0]
        return (x - level * model(x, level) if model.flow else model(x, level)) * scale

    x = torch.tensor(NOISE, dtype=dtype) * solver.sigmas[0]
    result = sample_dyweight(
        denoiser, x, torch.tensor(solver.run_sigmas), {"scale": 1.0}, seen.append, True, solver=solver
    )
    assert len(calls) == solver.calls and all(call.shape == (5,) for call in calls)
    assert [step["i"] for step in seen] == list(range(solver.steps))
    ours = torch.stack([*(step["x"] for step in seen), result])
    assert ours.dtype == dtype
    _close(ours.double().numpy(), states, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_the_scheduler_is_the_rust_sampler(case, dtype, prediction):
    solver, model, states = case
    if model.flow:
        prediction = "flow_prediction"
    table = {} if model.flow else {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    scheduler = DyWeightScheduler(solver=solver.record, prediction_type=prediction, **table)
    scheduler.set_timesteps(solver.calls)
    assert len(scheduler.timesteps) == solver.calls
    x = scheduler.initial_latents(torch.tensor(NOISE, dtype=dtype))
    for j, t in enumerate(scheduler.timesteps):
        level = solver.levels[j + solver.afs]
        state = x.double().numpy() / scheduler.process.outer(level)
        _close(state, states[j + solver.afs], TOLERANCE[dtype], states)
        shown = scheduler.scale_model_input(x, t)
        x = scheduler.step(_network(model, shown, level, prediction), t, x).prev_sample
    assert x.dtype == dtype
    _close(x.double().numpy(), states[-1], TOLERANCE[dtype], states)


def _network(model, shown, level, prediction):
    """What a network of this kind, trained to perfection, says."""
    if prediction == "flow_prediction":
        return model(shown, level)
    root = np.sqrt(1 + level**2)
    x = shown * root
    data = model(x, level)
    if prediction == "sample":
        return data
    noise = (x - data) / level
    # v = αn − σ'x₀ with α = 1/√(1+σ²), σ' = σα
    return noise if prediction == "epsilon" else (noise - level * data) / root


def _close(ours, theirs, tolerance, scale=None):
    size = np.abs(theirs if scale is None else scale).max() if tolerance > 1e-8 else 1.0
    error = np.abs(ours - theirs).max()
    assert error <= tolerance * size, f"{error:.2e} of {size:.3g}"
