"""The ComfyUI nodes: with the real ComfyUI where COMFYUI_DIR names a checkout, else with its sampler contract restated."""

import importlib.util
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import sample

from dyweight import Solver, preset
from dyweight.solver_file import NoiseTable

NODES = Path(__file__).resolve().parents[2] / "comfyui" / "dyweight"
CHECKOUT = os.environ.get("COMFYUI_DIR")
AFS_FLOW = {
    "format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": 3, "steps": 4, "order": 2, "afs": True,
    "prediction": "velocity", "schedule": {"kind": "flow", "shift": 1.5}, "sigma_min": 0.0, "sigma_max": 1.0,
    "weights": [[1.05], [-0.4, 1.4], [-0.4, 1.3], [-0.5, 1.4]], "time_scale": [0.9, 1.0, 0.95],
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Where models are sampled: ComfyUI itself or its contract."""
    if CHECKOUT:
        from comfyui_real import World
    else:
        from comfyui_contract import World
    folder = tmp_path_factory.mktemp("models")
    return World(Path(CHECKOUT) if CHECKOUT else None, folder)


@pytest.fixture(scope="module")
def nodes(world):
    """The folder as ComfyUI loads it: a module by path."""
    spec = importlib.util.spec_from_file_location(
        "dyweight_nodes", NODES / "__init__.py", submodule_search_locations=[str(NODES)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["dyweight_nodes"] = module
    spec.loader.exec_module(module)
    return types.SimpleNamespace(**{name: cls() for name, cls in module.NODE_CLASS_MAPPINGS.items()})


def _replay(solver, seen, start=0, state=None, noise=None):
    """The restated method on the data predictions that ComfyUI's model gave."""

    def predict(x, level, i):
        denoised = seen[i - start]["denoised"]
        return (x - denoised) / level if solver.prediction == "velocity" else denoised

    return sample(solver, predict, noise, start, state)


CASES = {"eps": "ms-coco-nfe16", "v": "ms-coco-nfe8", "flow": "flux-nfe5", "flow-afs": AFS_FLOW}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("cfg", [1.0, 5.0])
def test_a_whole_run(world, nodes, kind, cfg):
    solver = preset(CASES[kind]) if isinstance(CASES[kind], str) else Solver(CASES[kind])
    model = world.model(kind.split("-")[0])
    noise = torch.randn(2, *world.shape(kind), generator=torch.manual_seed(0))
    model, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(model, solver, 1.0)
    result, seen, told = world.sample(model, noise, sampler, sigmas, cfg)
    states = _replay(solver, seen, noise=noise.double().numpy())
    # Both ends: the run starts from σ·noise (not √(1+σ²)·noise), and its last state is the result, unscaled.
    for step, state in zip(seen, states):
        np.testing.assert_allclose(step["x"], state, atol=1e-5 * np.abs(states[0]).max())
    np.testing.assert_allclose(result, states[-1], atol=1e-5 * np.abs(states[0]).max())
    levels = [level for level in solver.levels if np.isfinite(level)]
    table = NoiseTable.scaled_linear(0.00085, 0.012)
    expected = levels if kind.startswith("flow") else [table.timestep(level) for level in levels]
    # With an analytical first step, one call fewer than steps.
    np.testing.assert_allclose(told[:: len(told) // len(expected)], expected, rtol=1e-5)
    assert len(told) in (len(expected), 2 * len(expected))


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_image_to_image(world, nodes, kind):
    solver = preset(CASES[kind])
    image = torch.randn(1, *world.shape(kind), generator=torch.manual_seed(1))
    noise = torch.randn(1, *world.shape(kind), generator=torch.manual_seed(2))
    model, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(world.model(kind), solver, 0.5)
    start = solver.steps - solver.steps // 2
    time = solver.times[start]
    np.testing.assert_allclose(sigmas, np.float32([*solver.times[start:-1], solver.sigmas[-1]]))
    result, seen, _ = world.sample(model, noise, sampler, sigmas, 1.0, image)
    begun = time * noise + (1 - time if kind == "flow" else 1) * image
    np.testing.assert_allclose(seen[0]["x"], begun, atol=1e-5)
    states = _replay(solver, seen, start, begun.double().numpy())
    np.testing.assert_allclose(result, states[-1], atol=2e-5 * np.abs(states).max())


def test_an_unpatched_model_is_refused_rather_than_rounded(world, nodes):
    solver, plain = preset("ms-coco-nfe8"), world.model("eps")
    patched, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(plain, solver, 1.0)
    noise = torch.randn(1, *world.shape("eps"))
    with pytest.raises(ValueError, match="rounds levels"):
        world.sample(plain, noise, sampler, sigmas, 1.0)
    world.sample(patched, noise, sampler, sigmas, 1.0)
    sampling = plain.get_model_object("model_sampling")
    assert float(sampling.timestep(torch.tensor([2.0]))) % 1 == 0, "the original model is untouched"
    again, _, _ = nodes.DyWeightSamplerAndSigmas.build(patched, solver, 1.0)
    assert again is patched


def test_disagreements_are_refused(world, nodes):
    eps, flow = world.model("eps"), world.model("flow")
    with pytest.raises(ValueError, match="learned for flow models"):
        nodes.DyWeightSamplerAndSigmas.build(eps, preset("flux-nfe3"), 1.0)
    with pytest.raises(ValueError, match="noise table"):
        nodes.DyWeightSamplerAndSigmas.build(flow, preset("ms-coco-nfe8"), 1.0)
    model, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(eps, preset("ms-coco-nfe8"), 1.0)
    (others,) = nodes.DyWeightSigmas.sigmas(preset("ms-coco-nfe12"), 1.0)
    with pytest.raises(ValueError, match="not this solver's"):
        world.sample(model, torch.randn(1, *world.shape("eps")), sampler, others, 1.0)
    assert torch.equal(sigmas, nodes.DyWeightSigmas.sigmas(preset("ms-coco-nfe8"), 1.0)[0])
    assert len(nodes.DyWeightSigmas.sigmas(preset("ms-coco-nfe8"), 0.0)[0]) == 0
    assert len(nodes.DyWeightSigmas.sigmas(preset("ms-coco-nfe8"), 0.01)[0]) == 2


def test_a_split_run_goes_on(world, nodes):
    """ComfyUI's own node splits sigmas; each half finds its place."""
    solver, noise = preset("flux-nfe5"), torch.randn(1, *world.shape("flow"))
    model, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(world.model("flow"), solver, 1.0)
    half, _, _ = world.sample(model, noise, sampler, sigmas[:3], 1.0)
    _, seen, _ = world.sample(model, torch.zeros_like(noise), sampler, sigmas[2:], 1.0, torch.as_tensor(half).float())
    whole, full, _ = world.sample(model, noise, sampler, sigmas, 1.0)
    np.testing.assert_allclose(seen[0]["x"], full[2]["x"], atol=1e-5)
    assert len(seen) == 3 and whole.shape == noise.shape


def test_solvers_are_found_by_name(world, nodes, record):
    import json

    (world.folder / "mine.json").write_text(json.dumps(record))
    (choices, _) = nodes.DyWeightLoadSolver.INPUT_TYPES()["required"]["solver"]
    assert "mine.json" in choices and "preset: flux-nfe7" in choices
    assert nodes.DyWeightLoadSolver.load("mine.json")[0].record == record
    assert nodes.DyWeightLoadSolver.load("preset: ms-coco-nfe16")[0].times == preset("ms-coco-nfe16").times.tolist()
    assert nodes.DyWeightLoadSolver.IS_CHANGED("mine.json") != nodes.DyWeightLoadSolver.IS_CHANGED("preset: flux-nfe7")
