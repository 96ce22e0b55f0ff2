"""The ComfyUI nodes: with the real one where COMFYUI_DIR names a checkout, else with its sampler contract restated."""

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
def test_the_last_part_of_a_run(world, nodes, kind):
    """Image to image with a solver of the whole range: the last part of its own sigmas (SplitSigmasDenoise)."""
    solver = preset(CASES[kind])
    image = torch.randn(1, *world.shape(kind), generator=torch.manual_seed(1))
    noise = torch.randn(1, *world.shape(kind), generator=torch.manual_seed(2))
    model, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(world.model(kind), solver, 1.0)
    start = solver.steps - solver.steps // 2
    sigmas, time = sigmas[start:], solver.times[start]
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
    with pytest.raises(ValueError, match="steps were learned for 1 and cannot be kept.*SplitSigmasDenoise"):
        nodes.DyWeightSigmas.sigmas(preset("ms-coco-nfe16"), 0.5)


def test_a_process_that_is_not_known_is_refused_by_name(world, nodes):
    model, known = world.model("eps"), sys.modules["comfy.model_sampling"]
    sampling = model.get_model_object("model_sampling")
    sampling.__class__ = type("Lotus", (known.ModelSamplingDiscrete, known.IMG_TO_IMG), {})
    for build in (
        lambda: nodes.DyWeightSamplerAndSigmas.build(model, preset("ms-coco-nfe8"), 1.0),
        lambda: _learn(world, nodes, model, "eps"),
    ):
        with pytest.raises(ValueError, match="ModelSamplingDiscrete/IMG_TO_IMG|Discrete/ImageToImage"):
            build()
    sampling.__class__ = type("Rough", (known.ModelSamplingDiscrete, known.EPS), {
        "timestep": lambda self, sigma: (sigma.log()[:, None] - self.sigmas.log()).abs().argmin(1) + 1,
    })  # fmt: skip
    with pytest.raises(ValueError, match="rounds levels in a way that is not known"):
        nodes.DyWeightSamplerAndSigmas.build(model, preset("ms-coco-nfe8"), 1.0)


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_the_parts_of_a_split_run_hand_over_their_slopes(world, nodes, kind):
    """ComfyUI's own node splits sigmas; two samplers share the run, as those of two experts do."""
    solver, noise = preset(CASES[kind]), torch.randn(1, *world.shape(kind), generator=torch.manual_seed(3))
    model, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(world.model(kind), solver, 1.0)
    _, other, _ = nodes.DyWeightSamplerAndSigmas.build(world.model(kind), Solver(solver.record).file, 1.0)
    whole, full, _ = world.sample(model, noise, sampler, sigmas, 1.0)
    size = np.abs(whole).max()

    def second(half, more):
        return world.sample(model, more, other, sigmas[2:], 1.0, torch.as_tensor(half).float())

    half, _, _ = world.sample(model, noise, sampler, sigmas[:3], 1.0)
    ended, seen, _ = second(half, torch.zeros_like(noise))
    np.testing.assert_allclose(seen[0]["x"], full[2]["x"], atol=1e-5 * size)
    assert len(seen) == solver.steps - 2
    np.testing.assert_allclose(ended, whole, atol=1e-4 * size)
    # Another run in between changes nothing; a state that no part has ended in has no slopes.
    world.sample(model, noise + 1.0, sampler, sigmas[:3], 1.0)
    again, _, _ = second(half, torch.zeros_like(noise))
    np.testing.assert_allclose(again, whole, atol=1e-4 * size)
    alone, _, _ = second(half + 0.05 * size, torch.zeros_like(noise))
    assert np.abs(alone - whole).max() > 1e-3 * size


# --- learning ---

OPTIONS = {"cfg": 1.0, "steps": 3, "pairs": 2, "reference_steps": 12, "first_seed": 0, "denoise": 1.0}


def _learn(world, nodes, model, kind, name="new", overwrite=False, latent=None, **options):
    latent = torch.zeros(1, *world.shape(kind)) if latent is None else latent
    options, (positive, negative) = {**OPTIONS, **options}, world.conditioning(kind)
    learned = nodes.DyWeightLearnSolver.learn(
        model=model, positive=positive, negative=negative, latent={"samples": latent}, file_name=name,
        overwrite=overwrite, **options,
    )  # fmt: skip
    return learned["result"]


def test_a_solver_is_learned_judged_and_written(world, nodes):
    for kind in world.kinds:
        model = world.model(kind)
        solver, text = _learn(world, nodes, model, kind, f"learned {kind}", cfg=1.0)
        path = world.folder / f"learned {kind}.json"
        record = Solver.load(path).record
        assert solver.calls == 3 and solver.times == record["realised_times"]
        distances, training = record["training"]["distances"], record["training"]
        assert list(distances) == ["dpmpp_2m", "uni_pc", "learned"] and all(v > 0 for v in distances.values())
        assert training["validation"][1] <= training["validation"][0]
        best = min(v for name, v in distances.items() if name != "learned")
        said = "times closer than" if distances["learned"] < best else "NOT closer than"
        assert said in text and path.name in text and f"{distances['learned']:.4f}" in text
        built, sampler, sigmas = nodes.DyWeightSamplerAndSigmas.build(model, solver, 1.0)
        noise = torch.randn(1, *world.shape(kind), generator=torch.manual_seed(300))
        result, _, told = world.sample(built, noise, sampler, sigmas, 1.0)
        assert np.isfinite(result).all() and len(told) == 3


def test_the_same_seed_gives_the_same_bytes_and_no_file_is_replaced_untold(world, nodes):
    model, path = world.model("flow"), world.folder / "twice.json"
    _learn(world, nodes, model, "flow", "twice", steps=2)
    first = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite"):
        _learn(world, nodes, model, "flow", "twice.json", steps=2)
    _learn(world, nodes, model, "flow", "twice", True, steps=2)
    assert path.read_bytes() == first
    _learn(world, nodes, model, "flow", "twice", True, steps=2, first_seed=1)
    assert path.read_bytes() != first
    assert nodes.DyWeightLearnSolver.VALIDATE_INPUTS("twice") is True
    for name in ("", "../x", "a/b", ".hidden", "x\ny"):
        assert "no file name" in nodes.DyWeightLearnSolver.VALIDATE_INPUTS(name), name


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_a_solver_learned_for_image_to_image_keeps_its_steps(world, nodes, kind):
    model = world.model(kind)
    image = torch.randn(1, *world.shape(kind), generator=torch.manual_seed(1))
    with pytest.raises(ValueError, match="latent is empty"):
        _learn(world, nodes, model, kind, denoise=0.5)
    solver, _ = _learn(world, nodes, model, kind, f"part {kind}", latent=image, denoise=0.5)
    _, _, sigmas = nodes.DyWeightSamplerAndSigmas.build(model, solver, 0.5)
    assert len(sigmas) == 4
    np.testing.assert_allclose(sigmas[0], model.get_model_object("model_sampling").percent_to_sigma(0.5), rtol=1e-6)
    with pytest.raises(ValueError, match="learned for 0.5"):
        nodes.DyWeightSigmas.sigmas(solver, 1.0)


def test_learning_is_cancelled_and_leaves_no_file(world, nodes):
    management, learning = sys.modules["comfy.model_management"], sys.modules["dyweight_nodes.learning"]
    runs, model = [], world.model("flow")

    class Counting(learning.Runs):
        def end(self, *arguments):
            runs.append(arguments)
            if len(runs) == 20:
                management.interrupt_current_processing()
            return super().end(*arguments)

    node = sys.modules["dyweight_nodes.learn_node"]
    node.Runs, kept = Counting, node.Runs
    try:
        with pytest.raises(management.InterruptProcessingException):
            _learn(world, nodes, model, "flow", "never")
    finally:
        node.Runs = kept
    assert len(runs) == 20 and not list(world.folder.glob("*never*"))


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_learning_may_begin_as_comfyuis_own_samplers(world, nodes, kind):
    """Written as weights they end where they end."""
    learning, rivals = sys.modules["dyweight_nodes.learning"], sys.modules["dyweight_nodes.rivals"]
    latent = {"samples": torch.zeros(1, *world.shape(kind))}
    runs = learning.Runs(world.model(kind), *world.conditioning(kind), 1.0, latent, lambda _: None)
    for name in rivals.NAMES:
        sigmas = rivals.sigmas_of(name, lambda steps: runs.levels("simple", steps), 4)
        theirs = runs.end(sys.modules["comfy.samplers"].sampler_object(name), sigmas, 3)
        start = rivals.as_weights(name, name, sigmas)
        solver = learning.SolverFile(learning._record(start, runs))
        ours = runs.end(learning.DyWeightSampler(solver, None), solver.run_sigmas, 3)
        assert np.linalg.norm(ours - theirs) < 2e-3 * np.linalg.norm(theirs), name


def test_what_is_not_closer_is_said(nodes):
    node, learning = sys.modules["dyweight_nodes.learn_node"], sys.modules["dyweight_nodes.learning"]
    record = {"prediction": "velocity", "training": {"cfg": 1.0}}
    distances, settings = {"dpmpp_2m": 0.3, "uni_pc": 0.1, "learned": 0.2}, {"dpmpp_2m": "beta", "uni_pc": "simple"}
    found = learning.Found(record, distances, settings, "2M", (0.3, 0.2), ["uni_pc does not run"], 10, 1.0)
    text = node.report(found, learning.Options(), Path("x.json"))
    assert "NOT closer than uni_pc with simple" in text and "0.1000" in text and "uni_pc does not run" in text


def test_the_optimiser_is_the_compiled_one(nodes):
    """Rule by rule: the same solves lead both the same way."""
    native = pytest.importorskip("dyweight._native")
    ours = sys.modules["dyweight_nodes.gauss_newton"]
    wanted = np.array([0.7, 1.3, -0.4, 5.0])

    def end(p, x, wall):
        if np.any(np.abs(p) >= wall):
            return None
        other = x + 0.05 * np.sin(np.arange(len(x)))
        return p[0] * x + p[1] * other + 0.3 * np.tanh(p[2] * x) + 0.1 * p[0] * p[2]

    class Solves:
        def __init__(self, wall, noise):
            draw = np.random.default_rng(0)
            self.inputs = {"training": draw.normal(size=(5, 24)), "validation": draw.normal(size=(3, 24))}
            self.noise, self.wall, self.made = noise * draw.normal(size=24), wall, 0

        def pairs(self, split):
            return len(self.inputs[split])

        def residuals(self, candidates, split, pair):
            self.made += len(candidates)
            x = self.inputs[split][pair]
            ends = [end(np.array(p), x, self.wall) for p in candidates]
            return [None if e is None else e - end(wanted, x, np.inf) + self.noise for e in ends]

    class Bytes(Solves):
        def residuals(self, *asked):
            return [None if r is None else r.tobytes() for r in super().residuals(*asked)]

    for wall, noise in ((np.inf, 0.0), (np.inf, 0.3), (3.05, 0.1), (3.0 + 1e-12, 0.0)):
        start = [1.0, 1.0, 0.0, 3.0]
        made, solves, compiled = Solves(wall, noise), Bytes(wall, noise), None
        compiled, found = native.Optimiser(start, solves, 6), ours.GaussNewton(start, made, 6)
        while not compiled.is_finished:
            assert not found.is_finished
            # What is left of a loss of 1 is rounding.
            np.testing.assert_allclose(found.advance(), compiled.advance()[0], rtol=1e-6, atol=1e-18)
        assert found.is_finished and made.made == solves.made
        np.testing.assert_allclose(found.best, compiled.best, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found.best_validation, compiled.best_validation, rtol=1e-5, atol=1e-14)
    assert ours.most_solves(4, 9, 6, 3) == native.most_solves(4, 9, 6, 3)
    assert ours.most_solves(4, 9, 6, 0) == native.most_solves(4, 9, 6, 0)


def test_solvers_are_found_by_name(world, nodes, record):
    import json

    (world.folder / "mine.json").write_text(json.dumps(record))
    (choices, _) = nodes.DyWeightLoadSolver.INPUT_TYPES()["required"]["solver"]
    assert "mine.json" in choices and "preset: flux-nfe7" in choices
    assert nodes.DyWeightLoadSolver.load("mine.json")[0].record == record
    assert nodes.DyWeightLoadSolver.load("preset: ms-coco-nfe16")[0].times == preset("ms-coco-nfe16").times.tolist()
    assert nodes.DyWeightLoadSolver.IS_CHANGED("mine.json") != nodes.DyWeightLoadSolver.IS_CHANGED("preset: flux-nfe7")
