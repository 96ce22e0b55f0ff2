"""Solvers learned for pipelines as they are: real pipeline code, tiny random networks."""

import copy
import json
import subprocess
import sys
import textwrap
import threading

import diffusers
import pytest
import tiny
import torch
from mixtures import paths
from test_pipelines import FLUX_SIZE

import dyweight
from dyweight import few_steps, pipelines
from dyweight.diffusers import DyWeightScheduler, UnknownProcess, train_pipeline
from dyweight.watching import Log, watched

PROMPTS = ["a", "b c", "d", "e"]
SHORT = {"pairs": 4, "validation_pairs": 2, "test_pairs": 2, "iterations": 2, "reference_steps": 20, "progress": False}
TINY = {**SHORT, "pairs": 2, "validation_pairs": 1, "test_pairs": 1, "iterations": 1, "reference_steps": 8}


def end(pipe, scheduler, steps, seed, **call):
    """Latents of a pipeline under a scheduler, as anybody would make them."""
    pipe.scheduler = scheduler
    made = pipe("c", num_inference_steps=steps, generator=torch.manual_seed(seed), output_type="latent", **call)
    return made.images


def error(pipe, scheduler, steps, own, **call):
    """Distance to 30 steps of the pipeline's own scheduler, on noise that nothing was learned on."""
    found = []
    for seed in (901, 902):
        target = end(pipe, copy.deepcopy(own), 30, seed, **call)
        found.append(float((end(pipe, scheduler, steps, seed, **call) - target).norm() / target.norm()))
    return sum(found) / len(found)


@pytest.mark.parametrize(("make", "call"), [(tiny.stable_diffusion, {"guidance_scale": 5.0}), (tiny.flux, FLUX_SIZE)])
def test_a_pipeline_learns_its_own_solver(make, call, tmp_path):
    """Looked at from outside: at equal steps closer to many steps than its own scheduler is."""
    pipe = make(tmp_path / "tokens")
    own = copy.deepcopy(pipe.scheduler)
    found = few_steps(pipe, 4, PROMPTS, out=tmp_path / "solver.json", **SHORT, **call)
    assert found.is_set and isinstance(pipe.scheduler, DyWeightScheduler), found
    # diffusers' Euler begins a noise table at √(σ² + 1) times the noise, ours at σ times: 0.24 % at σ = 14.6. A flow has no such difference.
    assert found.agreement < (3e-3 if make is tiny.stable_diffusion else 1e-3)
    assert list(found.distances)[0] == type(own).__name__
    assert {"learned", "DPM-Solver++(2M)", "UniPC"} <= set(found.distances)
    again = DyWeightScheduler.from_file(tmp_path / "solver.json", own)
    learned = error(pipe, again, 4, own, **call)
    assert learned < 0.6 * error(pipe, copy.deepcopy(own), 4, own, **call)
    pipe.scheduler = again
    pipe.save_pretrained(tmp_path / "saved")
    loaded = diffusers.DiffusionPipeline.from_pretrained(tmp_path / "saved")
    assert loaded.scheduler.solver.times == again.solver.times
    if make is tiny.stable_diffusion:
        assert (found.solver.nfe, found.solver.record["guidance"]) == (8, 5.0)


@pytest.mark.parametrize(("kind", "strength"), [("sd", 0.5), ("flux", 0.8), ("inpaint", 0.6)])
def test_image_to_image_learns_from_where_it_begins(kind, strength, tmp_path):
    image = torch.rand(1, 3, 16, 16, generator=torch.manual_seed(5))
    call = {"prompt": "a", "image": image, "strength": strength}
    if kind == "flux":
        pipe, call = tiny.flux(tmp_path, diffusers.FluxImg2ImgPipeline), {**call, **FLUX_SIZE}
    elif kind == "sd":
        pipe = tiny.stable_diffusion(tmp_path, kind=diffusers.StableDiffusionImg2ImgPipeline)
    else:
        pipe = tiny.stable_diffusion(tmp_path, kind=diffusers.StableDiffusionInpaintPipeline)
        mask = torch.zeros(1, 1, 16, 16)
        mask[..., 8:] = 1
        call = {**call, "mask_image": mask, "height": 16, "width": 16}
    found = few_steps(pipe, 3, conditions=[call], **TINY)
    assert found.num_inference_steps >= 3 / strength - 1 and found.solver.steps == 3
    assert found.distances["learned"] < list(found.distances.values())[0]
    calls, step = [], pipe.scheduler.step
    pipe.scheduler.step = lambda *given, **named: calls.append(1) or step(*given, **named)
    pipe(**call, num_inference_steps=found.num_inference_steps, output_type="latent")
    assert len(calls) == 3
    with pytest.raises(ValueError, match=f"must be {found.num_inference_steps}, not 40"):
        pipe(**call, num_inference_steps=40)


def test_where_the_own_scheduler_is_as_close_it_stays(tmp_path):
    """The reference is the pipeline's own run of as many steps: nothing can be closer to it."""
    pipe = tiny.stable_diffusion(tmp_path)
    own = pipe.scheduler
    found = few_steps(pipe, 4, PROMPTS, **{**TINY, "reference_steps": 4})
    assert not found.is_set and pipe.scheduler is own
    assert "keeps its scheduler" in str(found)


def test_a_learned_scheduler_can_be_learned_over_again(tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    own = copy.deepcopy(pipe.scheduler)
    few_steps(pipe, 4, ["a"], **TINY)
    with pytest.raises(ValueError, match="already has a learned scheduler"):
        few_steps(pipe, 3, ["a"], **TINY)
    pipe.scheduler = type(own).from_config(pipe.scheduler.config)
    assert pipe.scheduler.config.beta_end == own.config.beta_end


@pytest.mark.parametrize(("what", "when"), [(RuntimeError, 1), (KeyboardInterrupt, 9), (RuntimeError, 60), (KeyboardInterrupt, 120)])
def test_what_ends_it_leaves_everything_as_it_was(what, when, tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    own, bar, threads = pipe.scheduler, dict(pipe._progress_bar_config), threading.active_count()
    config, random = dict(own.config), torch.get_rng_state()
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) == when:
            raise what("now")

    handle = pipe.unet.register_forward_pre_hook(fail)
    with pytest.raises(what, match="now"):
        few_steps(pipe, 3, ["a"], **TINY)
    handle.remove()
    assert pipe.scheduler is own and type(own) is diffusers.EulerDiscreteScheduler and dict(own.config) == config
    assert pipe._progress_bar_config == bar and threading.active_count() == threads
    assert torch.equal(torch.get_rng_state(), random) and not pipe.unet._forward_pre_hooks


def test_the_same_call_goes_on_after_an_interruption(tmp_path):
    """From the kept references and state, to the same bytes, with fewer evaluations."""
    whole = few_steps(tiny.stable_diffusion(tmp_path), 3, ["a", "b"], **SHORT)

    def stop(line):
        if line.startswith("iteration 1"):
            raise KeyboardInterrupt

    call = {**SHORT, "cache": tmp_path / "cache"}
    with pytest.raises(KeyboardInterrupt):
        few_steps(tiny.stable_diffusion(tmp_path), 3, ["a", "b"], **{**call, "progress": stop})
    again = few_steps(tiny.stable_diffusion(tmp_path), 3, ["a", "b"], **call)
    assert again.solver.body == whole.solver.body and again.distances == whole.distances
    assert again.evaluations < 0.7 * whole.evaluations


def test_references_are_kept_by_content(tmp_path):
    """Every condition, every argument and the weights count: nothing else would be the right reference."""
    pipe = tiny.stable_diffusion(tmp_path)
    own, cache = pipe.scheduler, tmp_path / "cache"

    def kept(prompts, **call):
        pipe.scheduler = own
        few_steps(pipe, 3, prompts, cache=cache, **TINY, **call)
        return {path.name for path in cache.glob("*.npy")}

    first = kept(["a", "b", "c"])
    assert kept(["a", "b", "c"]) == first
    middle = kept(["a", "d", "c"])
    assert middle > first, "the condition in the middle is another"
    negative = kept(["a", "b", "c"], negative_prompt="e")
    assert len(negative) == len(middle) + len(first)
    with torch.no_grad():
        pipe.unet.conv_out.bias.add_(0.1)
    assert len(kept(["a", "b", "c"])) == len(negative) + len(first)


def test_two_processes_leave_the_bytes_of_one(tmp_path):
    script = tmp_path / "learn.py"
    script.write_text(textwrap.dedent(f"""
        import pathlib, sys
        sys.path[:0] = {paths()!r} + [{str(tiny.__file__.rsplit("/", 1)[0])!r}]
        import torch, tiny, dyweight
        torch.set_num_threads(1)
        place = pathlib.Path(sys.argv[1])
        comm = dyweight.Comm()
        pipe = tiny.stable_diffusion(place / f"tokens{{comm.rank}}")
        found = dyweight.few_steps(pipe, 3, ["a", "b"], comm=comm, **{TINY | {"pairs": 3, "validation_pairs": 2}!r})
        if comm.rank == 0:
            (place / "solver.json").write_text(repr(found.solver.body) + repr(found.distances))
    """))
    texts = []
    for count in (1, 2):
        place = tmp_path / str(count)
        place.mkdir()
        words = ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "--master-port", "29517", script, place]
        done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        texts.append((place / "solver.json").read_text())
    assert texts[0] == texts[1]


def test_calls_and_steps_are_told_apart(tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    with pytest.raises(ValueError, match="nfe is 5, .* is 2 calls: choose 4 or 6"):
        train_pipeline(pipe, ["a"], 5, 7.5, **TINY)
    solver = train_pipeline(pipe, ["a"], 6, 7.5, **TINY)
    assert isinstance(solver, dyweight.Solver) and (solver.nfe, solver.steps) == (6, 3)
    with pytest.raises(TypeError, match="steps .* or nfe"):
        few_steps(pipe, prompts=["a"])


MISTAKES = [
    ({"prompts": "a red bicycle"}, TypeError, "give a list"),
    ({"prompts": []}, ValueError, "at least one prompt"),
    ({"prompts": ["a"], "guidence_scale": 2.0}, TypeError, "no argument 'guidence_scale'"),
    ({"prompts": ["a"], "generator": 3}, ValueError, "generator is chosen here"),
    ({"prompts": ["a"], "pairs": 0}, ValueError, "pairs is 0"),
    ({"prompts": ["a"], "eta": 0.5}, ValueError, "eta is 0.5"),
]


@pytest.mark.parametrize(("given", "kind", "says"), MISTAKES)
def test_mistakes_are_named_before_anything_is_done(given, kind, says, tmp_path):
    pipe = tiny.stable_diffusion(tmp_path)
    pipe.scheduler = own = diffusers.DDIMScheduler.from_config(pipe.scheduler.config, clip_sample=False)
    with pytest.raises(kind, match=says):
        few_steps(pipe, 3, **{**TINY, **given})
    assert pipe.scheduler is own


def test_a_process_that_differs_is_refused_with_the_part_that_does(tmp_path):
    class Odd(diffusers.EulerDiscreteScheduler):
        pass

    pipe = tiny.stable_diffusion(tmp_path)
    pipe.scheduler = Odd.from_config(pipe.scheduler.config)
    with pytest.raises(UnknownProcess, match="Odd is not served"):
        few_steps(pipe, 3, ["a"], **TINY)
    # A table that is not what the settings say.
    pipe.scheduler = diffusers.DDIMScheduler.from_config(pipe.scheduler.config, clip_sample=False)
    kept, diffusers.DDIMScheduler.step = diffusers.DDIMScheduler.step, _halved(diffusers.DDIMScheduler.step)
    try:
        with pytest.raises(UnknownProcess, match="not understood: ours differs .* after step"):
            few_steps(pipe, 3, ["a"], **TINY)
    finally:
        diffusers.DDIMScheduler.step = kept


def _halved(step):
    def halved(self, output, *given, **named):
        return step(self, output * 0.5, *given, **named)

    return halved


def test_copies_of_a_watched_scheduler_write_into_one_log():
    """Some pipelines run a copy of their scheduler beside it, for sound or for the frames of a film."""
    log = Log()
    one = watched(diffusers.FlowMatchEulerDiscreteScheduler(), log)
    two = copy.deepcopy(one)
    for scheduler, shape in ((one, (1, 2)), (two, (1, 3))):
        scheduler.set_timesteps(2)
        x = torch.ones(shape)
        for t in scheduler.timesteps:
            x = scheduler.step(torch.ones(shape), t, x, return_dict=False)[0]
    assert log.evaluations == 2 and len(log.end) == 5
    assert json.dumps(log.offered) == '[{"num_inference_steps": 2}, {"num_inference_steps": 2}]'


@pytest.mark.parametrize(
    ("learned", "own", "closer"), [(0.5, 1.0, True), (1.0 - 1e-7, 1.0, False), (0.995, 1.0, False), (2.0, 1.0, False)]
)
def test_a_solver_is_set_only_where_it_is_closer_beyond_rounding(learned, own, closer):
    assert pipelines._is_closer({"Own": own, pipelines.OURS: learned, "UniPC": 3.0}) is closer
