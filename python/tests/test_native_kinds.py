"""Every kind of pipeline is right with an exact network, and what people do to pipelines is seen through.

Names of tests say which promise of docs/diffusers.md they hold.
"""

import copy
import os
import random
import signal
import threading
import weakref

import diffusers
import made
import pytest
import tiny
import torch
from exact import Exact
from test_native_pipeline import TINY

from dyweight import few_steps
from dyweight.black_box import BlackBox
from dyweight.diffusers import DyWeightScheduler, UnknownProcess, train_pipeline
from dyweight.learning import check, record_of, setting_of
from dyweight.process import process_of
from dyweight.scheduler import SolverFile
from dyweight.starts import adams
from dyweight.watching import Log, watched

PAIR = (0, 0)


def looked_at(pipe, call, steps=4):
    """What is known before anything is learned, and how far ours is from diffusers' own steps."""
    box = BlackBox(pipe, [call], {})
    with box.borrowed():
        setting = setting_of(box, steps, 20, PAIR)
        return setting, check(setting, PAIR)


@pytest.mark.parametrize("kind", made.MADE)
def test_every_kind_ends_where_an_exact_network_says(kind):
    """Learned variances, pictures beside the state or its tokens, ControlNets, a second expert, three calls a step,
    films and sounds, pipelines without a prompt, and those that never scale their noise or their network's input."""
    pipe, call = made.MADE[kind]()
    own = pipe.scheduler
    _, agreement = looked_at(pipe, call)
    with Exact(pipe, call) as exact:
        is_right, says = exact.verdict()
    assert is_right and agreement < 0.01, says
    assert pipe.scheduler is own


@pytest.mark.parametrize("kind", ["classes", "flux kontext", "wan two experts", "instruct"])
def test_kinds_that_once_failed_are_learned(kind):
    pipe, call = made.MADE[kind]()
    found = few_steps(pipe, 3, conditions=[call], **TINY)
    own = next(iter(found.distances.values()))
    assert found.is_set == (found.distances["learned"] <= min(found.distances.values()))
    assert found.distances["learned"] < own, found
    assert found.solver.steps - int(found.solver.record["afs"]) == 3


# --- the flow grid is the pipeline's own ---


def own_grid(pipe, call, steps):
    """Levels of the pipeline's own run, read from its scheduler afterwards."""
    pipe(**call, num_inference_steps=steps, output_type="latent")
    return [float(v) for v in pipe.scheduler.sigmas[:-1]]


@pytest.mark.parametrize("settings", [{"use_dynamic_shifting": True}, {"use_dynamic_shifting": False}, {"shift": 3.0}])
def test_a_flow_is_shifted_only_where_its_scheduler_shifts(settings):
    """FLUX offers mu to every scheduler; schnell's has no dynamic shifting, and its grid is uniform."""
    pipe, call = made.flux()
    pipe.scheduler = diffusers.FlowMatchEulerDiscreteScheduler(**settings)
    expected = own_grid(pipe, call, 20)
    setting, _ = looked_at(pipe, call)
    assert setting.long_levels == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("shift", [1.0, 5.0])
def test_flow_shift_is_read(shift):
    pipe, call = made.wan()
    pipe.scheduler = diffusers.UniPCMultistepScheduler.from_config(pipe.scheduler.config, flow_shift=shift)
    expected = own_grid(pipe, call, 20)
    setting, _ = looked_at(pipe, call)
    assert setting.long_levels == pytest.approx(expected, abs=1e-3)  # UniPC tells its network whole numbers of 1000


class ShiftedByItsSteps(diffusers.FluxPipeline):
    """As FLUX.2: the time shift depends on the number of steps."""

    @torch.no_grad()
    def __call__(self, prompt=None, num_inference_steps=28, **named):
        self.scheduler.register_to_config(max_shift=1.15 + 10.0 / num_inference_steps)
        self.scheduler.register_to_config(base_shift=0.5 + 10.0 / num_inference_steps)
        return super().__call__(prompt=prompt, num_inference_steps=num_inference_steps, **named)


def test_a_shift_that_depends_on_the_number_of_steps_is_that_of_the_run():
    pipe, call = tiny.flux(made.folder(), ShiftedByItsSteps), made.FLUX_CALL
    expected = {n: own_grid(pipe, call, n) for n in (4, 20)}
    setting, _ = looked_at(pipe, call)
    assert setting.long_levels == pytest.approx(expected[20], rel=1e-5)
    assert [setting.process.level(t) for t in setting.few.timesteps] == pytest.approx(expected[4], rel=1e-5)


class TellsUnshifted(diffusers.FlowMatchEulerDiscreteScheduler):
    """As CogView4 uses its scheduler: levels are shifted, what the network is told is not."""

    def set_timesteps(self, num_inference_steps=None, device=None, sigmas=None, mu=None, timesteps=None):
        told = [1000.0 * float(v) for v in sigmas]
        super().set_timesteps(device=device, sigmas=sigmas, mu=mu, timesteps=told)


# Processes are known by the names of their classes.
TellsUnshifted.__name__ = "FlowMatchEulerDiscreteScheduler"


def test_levels_that_are_shifted_without_the_network_being_told():
    pipe, call = made.flux()
    pipe.scheduler = TellsUnshifted(use_dynamic_shifting=True)
    expected = own_grid(pipe, call, 20)
    expected_timesteps = [float(t) for t in pipe.scheduler.timesteps]
    setting = setting_of(BlackBox(pipe, [call], {}), 4, 20, PAIR)
    assert setting.long_levels == pytest.approx(expected, rel=1e-4)
    told = [setting.process.told(level) for level in setting.long_levels]
    assert told == pytest.approx(expected_timesteps, rel=1e-3)
    again = setting.scheduler(adams("Euler", [*setting.long_levels, 0.0], 1), 20)
    assert again.timesteps.tolist() == pytest.approx(told)
    assert type(again).from_config(again.config).timesteps.tolist() == pytest.approx(told)


# --- pipelines that leave out a scaling ---


def test_a_step_without_the_scaling_it_needs_is_refused_by_name():
    """DDPM's pipeline never calls scale_model_input, which an EDM network cannot be used without."""
    whole, call = made.pixels()
    pipe = tiny.quiet(diffusers.DDPMPipeline(whole.unet, diffusers.EDMEulerScheduler()))
    own = pipe.scheduler
    with pytest.raises(ValueError, match="scale_model_input"):
        few_steps(pipe, 3, conditions=[call], **TINY)
    assert pipe.scheduler is own


def test_a_pipeline_that_does_not_run_with_its_scheduler_is_refused_in_a_sentence():
    pipe, call = made.pixels()
    pipe.scheduler = diffusers.EDMEulerScheduler()
    with pytest.raises(NotImplementedError, match="DDIMPipeline does not run with EDMEulerScheduler .* 'eta'"):
        few_steps(pipe, 3, conditions=[call], **TINY)


@pytest.mark.parametrize("steps", [4, 6])
def test_a_number_that_cannot_be_made_is_refused_with_those_that_can(steps):
    """Heun's steps make two evaluations but for the last."""
    pipe = tiny.stable_diffusion(made.folder())
    pipe.scheduler = diffusers.HeunDiscreteScheduler.from_config(pipe.scheduler.config)
    with pytest.raises(ValueError, match=f"cannot make {steps} evaluations .*{steps - 1} at .*{steps + 1} at"):
        few_steps(pipe, steps, ["a"], **TINY)


def test_a_strength_of_a_tenth_is_learned_for_and_a_larger_one_is_refused():
    """Of few steps a tenth is none: more are asked for. A run that begins before the solver has no coefficients."""
    pipe, call = made.image_to_image()
    found = few_steps(pipe, 3, conditions=[{**call, "strength": 0.1}], **TINY)
    assert found.num_inference_steps == 30
    pipe.scheduler = DyWeightScheduler.from_file(found.solver, pipe.scheduler)
    with pytest.raises(ValueError, match="the last 3 of 30 steps .* begins 12 earlier"):
        pipe(**{**call, "strength": 0.5}, num_inference_steps=30, output_type="latent")


CHOSEN = {"latents": torch.zeros(1, 4, 8, 8), "sigmas": [9.0, 3.0], "timesteps": [9, 3], "denoising_end": 0.8}


@pytest.mark.parametrize("name, value", CHOSEN.items())
def test_what_is_chosen_here_is_refused_by_name(name, value):
    pipe = tiny.sdxl(made.folder())
    with pytest.raises(ValueError, match=f"{name} is chosen here"):
        few_steps(pipe, 3, ["a"], **{name: value}, **TINY)


@pytest.mark.parametrize("settings", [{}, {"algorithm_type": "sde-dpmsolver++"}])
def test_dpm_solver_as_the_own_scheduler(settings, tmp_path):
    """Its settings hold an infinity, which JSON has not; with added noise its own runs are no reference."""
    pipe = tiny.stable_diffusion(made.folder())
    pipe.scheduler = diffusers.DPMSolverMultistepScheduler.from_config(pipe.scheduler.config, **settings)
    found = few_steps(pipe, 3, ["a"], out=tmp_path / "solver.json", **TINY)
    own = "2M, refined" if settings else "DPMSolverMultistepScheduler"
    assert found.is_set and found.solver.record["training"]["reference"] == own


def test_a_scheduler_made_from_a_learned_ones_settings_is_no_learned_one():
    pipe = tiny.stable_diffusion(made.folder())
    learned = DyWeightScheduler.from_preset("ms-coco-nfe8", pipe.scheduler)
    pipe.scheduler = diffusers.UniPCMultistepScheduler.from_config(learned.config)
    assert few_steps(pipe, 3, ["a"], **TINY).is_set


def test_what_a_pipeline_has_against_our_scheduler_is_a_sentence():
    pipe = tiny.stable_diffusion(made.folder())
    own = type(pipe).check_inputs

    def check_inputs(self, *given, **named):
        if isinstance(self.scheduler, DyWeightScheduler):
            raise KeyError("ours")
        return own(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(pipe), "check_inputs", check_inputs)
        with pytest.raises(NotImplementedError, match="does not run with a learned scheduler .* KeyError: 'ours'"):
            few_steps(pipe, 3, ["a"], **TINY)


def test_rivals_run_in_pipelines_that_hand_over_more_than_they_take():
    """DDIM's pipeline gives `eta` to every step, which others do not know."""
    pipe, call = made.pixels()
    found = few_steps(pipe, 3, conditions=[call], **TINY)
    assert {"DPM-Solver++(2M)", "UniPC"} < set(found.distances) and not found.notes


def test_noise_that_is_scaled_before_the_timesteps_are_set():
    """Some pipelines do so, and a second run must be like the first."""
    scheduler = DyWeightScheduler.from_preset("ms-coco-nfe8", tiny.stable_diffusion(made.folder()).scheduler)
    noise, ends = torch.randn(1, 4, 8, 8, generator=torch.manual_seed(1)), []
    for _ in range(3):
        x = noise * scheduler.init_noise_sigma
        scheduler.set_timesteps(scheduler.calls)
        for t in scheduler.timesteps:
            x = scheduler.step(0.5 * scheduler.scale_model_input(x, t), t, x).prev_sample
        ends.append(x)
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


def test_a_pipeline_that_never_scales_its_noise_ends_at_the_right_size():
    """DDPM's, DiT's, Kandinsky's: states of variance one need no scaling."""
    whole, call = made.pixels()
    pipe = tiny.quiet(diffusers.DDPMPipeline(whole.unet, diffusers.DDPMScheduler(clip_sample=False)))
    with Exact(pipe, call) as exact:
        is_right, says = exact.verdict()
    assert is_right, says


# --- what pipelines do with a scheduler ---


def make_flow():
    return diffusers.FlowMatchEulerDiscreteScheduler()


def euler(own, number=3):
    """Ours as Euler on a flow."""
    levels = [1.0 - i / number for i in range(number)] + [0.0]
    return DyWeightScheduler._from_solver(SolverFile(record_of(adams("Euler", levels, 1), process_of(own), number)), own, {})


def test_a_level_for_each_token_keeps_clean_tokens():
    """per_token_timesteps, as LTX and Lucy pass them: clean tokens stay, the others go one step."""
    own = diffusers.FlowMatchEulerDiscreteScheduler()
    ours = euler(own)
    ours.set_timesteps(3)
    x, said = torch.randn(1, 4, 2, generator=torch.manual_seed(1)), torch.randn(1, 4, 2, generator=torch.manual_seed(2))
    told = torch.tensor([[0.0, 1000.0, 1000.0, 0.0]])
    after = ours.step(-said, ours.timesteps[0], x, per_token_timesteps=told, return_dict=False)[0]
    assert torch.equal(after[:, [0, 3]], x[:, [0, 3]])
    torch.testing.assert_close(after[:, 1:3], (x - said / 3)[:, 1:3])


def test_steps_give_what_they_are_asked_for():
    """return_dict=False gives tuples as others do; eta=0 and a generator are taken, eta above it is refused."""
    own = diffusers.FlowMatchEulerDiscreteScheduler()
    x = torch.randn(1, 2)
    ours = euler(own)
    plain = ours.step(x, ours.timesteps[0], x, return_dict=False)
    assert isinstance(plain, tuple)
    named = euler(own).step(x, ours.timesteps[0], x, eta=0.0, generator=torch.Generator())
    torch.testing.assert_close(plain[0], named.prev_sample)
    torch.testing.assert_close(plain[0], named[0])
    with pytest.raises(ValueError, match="eta is 0.3"):
        euler(own).step(x, ours.timesteps[0], x, eta=0.3)


def test_copies_of_a_scheduler_step_for_themselves():
    """LTX-2 and others run a deep copy of their scheduler for the sound beside the film."""
    one = euler(diffusers.FlowMatchEulerDiscreteScheduler())
    one.set_timesteps(3)
    two = copy.deepcopy(one)
    x, y = torch.ones(1, 2), torch.full((1, 5), 2.0)
    for t in one.timesteps:
        x = one.step(torch.ones(1, 2), t, x).prev_sample
        y = two.step(torch.full((1, 5), 3.0), t, y).prev_sample
    torch.testing.assert_close(x, torch.zeros(1, 2))
    torch.testing.assert_close(y, torch.full((1, 5), -1.0))


@pytest.mark.parametrize("make", [diffusers.FlowMatchEulerDiscreteScheduler, lambda: euler(make_flow())])
def test_a_step_that_is_taken_back_is_one_step(make):
    """Cosmos asks a step for its data prediction, takes it back, and steps with a mixture of predictions."""
    log = Log()
    scheduler = watched(make(), log)
    scheduler.set_timesteps(3)
    x = torch.ones(1, 2)
    for t in scheduler.timesteps:
        scheduler.step(torch.full((1, 2), 9.0), t, x, return_dict=False)
        scheduler._step_index -= 1
        x = scheduler.step(torch.ones(1, 2), t, x, return_dict=False)[0]
    assert log.evaluations == 3
    torch.testing.assert_close(x, torch.zeros(1, 2))


def test_a_data_prediction_that_is_given_counts_and_a_state_that_the_pipeline_scaled_is_taken_as_it_is():
    """As Cosmos does, which multiplies its noise by the configuration's sigma_max."""
    own = diffusers.EDMEulerScheduler(sigma_max=2.0)
    record = record_of(adams("Euler", [2.0, 1.0, 0.0], 1), process_of(own), 2)
    ours = DyWeightScheduler._from_solver(SolverFile(record), own, {})
    ours.set_timesteps(2)
    x, wanted, after = torch.full((1, 2), 5.0), torch.full((1, 2), 1.0), []
    for t in ours.timesteps:
        ours.scale_model_input(x, t)
        x = ours.step(torch.zeros(1, 2), t, x, pred_original_sample=wanted, return_dict=False)[0]
        after.append(float(x[0, 0]))
    assert after == pytest.approx([3.0, 1.0])


def test_guidance_that_nobody_gave_is_the_signatures():
    pipe = tiny.stable_diffusion(made.folder())
    solver = train_pipeline(pipe, ["a"], 6, **TINY)
    assert (solver.record["guidance"], solver.nfe) == (7.5, 6)


# --- what people do to networks ---


def replaced_linears(network, make):
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(parent, name, make(child))


class Int8Linear(torch.nn.Module):
    """Weights of eight bits with a scale a row; without a gradient."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127.0
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (linear.weight.detach() / scale).round().to(torch.int8))
        self.bias = linear.bias

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


class LowRank(torch.nn.Module):
    """An adapter beside a linear layer, as peft writes it: a name and a strength."""

    def __init__(self, linear, strength):
        super().__init__()
        self.base, self.scaling = linear, {"style": strength}
        generator = torch.Generator().manual_seed(3)
        self.a = torch.nn.Parameter(0.3 * torch.randn(1, linear.in_features, generator=generator))
        self.b = torch.nn.Parameter(0.3 * torch.randn(linear.out_features, 1, generator=generator))

    def forward(self, x):
        return self.base(x) + self.scaling["style"] * (x @ self.a.T @ self.b.T)


def test_quantised_networks_are_learned_for():
    pipe = tiny.stable_diffusion(made.folder())
    replaced_linears(pipe.unet, Int8Linear)
    found = few_steps(pipe, 3, ["a"], **TINY)
    assert found.distances["learned"] < found.distances["EulerDiscreteScheduler"]


def test_names_of_adapters_are_in_the_file_and_their_strength_is_part_of_the_cache(tmp_path):
    names, files = None, []
    for strength in (1.0, 0.5):
        pipe = tiny.stable_diffusion(made.folder())
        replaced_linears(pipe.unet, lambda linear, s=strength: LowRank(linear, s))
        pipe.unet.peft_config = {"style": object()}
        found = few_steps(pipe, 3, ["a"], cache=tmp_path / "cache", **TINY)
        names = found.solver.record["training"]["adapters"]
        files.append(len(list((tmp_path / "cache").glob("*.npy"))))
    assert names == ["style"] and files[1] == 2 * files[0]


def test_compiled_networks_are_learned_for():
    pipe = tiny.stable_diffusion(made.folder())
    plain = few_steps(pipe, 3, ["a"], **TINY)
    pipe = tiny.stable_diffusion(made.folder())
    pipe.unet = torch.compile(pipe.unet, backend="eager")
    compiled = few_steps(pipe, 3, ["a"], **TINY)
    assert compiled.distances == pytest.approx(plain.distances, rel=1e-2)


# --- in the memory of sampling, and leaving no trace ---


class Alive:
    """How many of the results of a layer are alive at once, and how large its batches are."""

    def __init__(self, layer):
        self.now, self.most, self.batch, self.gradients = 0, 0, 0, False
        layer.register_forward_hook(self._count)

    def _count(self, layer, given, result):
        self.now += 1
        self.most, self.batch = max(self.most, self.now), max(self.batch, len(result))
        self.gradients |= result.requires_grad
        weakref.finalize(result, self._gone)

    def _gone(self):
        self.now -= 1


def test_learning_takes_the_memory_of_sampling():
    """No result within the network outlives its call, batches are those of sampling, nothing is kept for gradients."""
    pipe = tiny.stable_diffusion(made.folder())
    sampling = Alive(pipe.unet.conv_in)
    pipe("a", num_inference_steps=3, output_type="latent")
    learning = Alive(pipe.unet.conv_in)
    few_steps(pipe, 3, ["a"], **TINY)
    assert (learning.most, learning.batch) == (sampling.most, sampling.batch)
    assert not learning.gradients and learning.now == 0


def ways_to_stop():
    """Exceptions at random calls, Ctrl-C at random times: a few, or a hundred with DYWEIGHT_SLOW."""
    chance = random.Random(7)
    for _ in range(100 if os.environ.get("DYWEIGHT_SLOW") else 6):
        yield ("exception", chance.randrange(1, 200))
        yield ("Ctrl-C", chance.uniform(0.01, 1.5))


def test_whatever_stops_it_leaves_everything_as_it_was():
    pipe = tiny.stable_diffusion(made.folder())
    pipe("a", num_inference_steps=1, output_type="latent")  # tqdm starts a thread of its own with the first bar
    own, config, bar = pipe.scheduler, dict(pipe.scheduler.config), dict(pipe._progress_bar_config)
    random_state, threads, networks = torch.get_rng_state(), threading.active_count(), set(pipe.unet._forward_pre_hooks)
    stopped = 0
    for how, when in ways_to_stop():
        with pytest.MonkeyPatch.context() as patch:
            if how == "exception":
                patch.setattr(pipe.unet, "forward", _failing(pipe.unet.forward, when))
            try:
                if how == "Ctrl-C":
                    patch.callback = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
                    signal.setitimer(signal.ITIMER_REAL, when)
                few_steps(pipe, 3, ["a"], **TINY)
            except (KeyboardInterrupt, RuntimeError):
                stopped += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
        if isinstance(pipe.scheduler, DyWeightScheduler):  # it was done before
            pipe.scheduler = own
        assert pipe.scheduler is own and type(own) is diffusers.EulerDiscreteScheduler and dict(own.config) == config, how
        assert pipe._progress_bar_config == bar and threading.active_count() == threads
        assert torch.equal(torch.get_rng_state(), random_state) and set(pipe.unet._forward_pre_hooks) == networks
    assert stopped > 3


def _failing(forward, when):
    left = iter(range(when))

    def fail(*given, **named):
        if next(left, None) is None:
            raise RuntimeError("now")
        return forward(*given, **named)

    return fail


# --- results that are kept ---


def kept_references(pipe, cache, conditions=({"prompt": "a"}, {"prompt": "b"}), **call):
    own = pipe.scheduler
    few_steps(pipe, 3, conditions=list(conditions), cache=cache, overwrite=True, **TINY, **call)
    pipe.scheduler = own
    return {path.name for path in cache.iterdir()}


PICTURE = made.image(1, 3, 16, 16)
CHANGES = {
    "a condition": lambda pipe: {"conditions": ({"prompt": "a"}, {"prompt": "c"})},
    "a negative prompt": lambda pipe: {"negative_prompt": "c"},
    "an argument": lambda pipe: {"guidance_scale": 3.0},
    "an embedding": lambda pipe: {"conditions": ({"prompt_embeds": torch.ones(1, 16, 32)}, {"prompt": "b"})},
    "one number of one weight": lambda pipe: pipe.unet.conv_in.weight.data[0, 0, 0, 0].add_(0.5) and {},
    "a setting of the scheduler": lambda pipe: pipe.scheduler.register_to_config(timestep_spacing="trailing") or {},
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_kept_is_known_by_its_content(what, tmp_path):
    pipe = tiny.stable_diffusion(made.folder())
    before = kept_references(pipe, tmp_path)
    assert kept_references(pipe, tmp_path) == before
    changed = CHANGES[what](pipe)
    after = kept_references(pipe, tmp_path, **(changed if isinstance(changed, dict) else {}))
    fresh = {name for name in after - before if name.endswith(".json")}
    assert fresh, "the state of another problem was taken up"
    assert {name for name in after - before if name.endswith(".npy")}, "references of another problem were taken"


def test_pictures_are_known_by_what_they_show(tmp_path):
    pipe, call = made.image_to_image()
    names = [kept_references(pipe, tmp_path, [{**call, "image": image}]) for image in (PICTURE, PICTURE, 1 - PICTURE)]
    assert names[0] == names[1] < names[2]


def test_an_unknown_scheduler_is_refused_by_name():
    pipe, call = made.pixels()
    pipe.scheduler = diffusers.LCMScheduler()
    with pytest.raises(UnknownProcess, match="LCMScheduler is not served"):
        looked_at(pipe, call)
