"""Models of any kind: shapes, conditions, devices, failures."""

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import mixtures
import numpy as np
import pytest
import torch
from mixtures import SHORT

import dyweight


def normal(x, sigma):
    """The exact denoiser of standard normal data."""
    return x / (1 + sigma**2).reshape(-1, *[1] * (x.ndim - 1))


@pytest.mark.parametrize("shape", [(3,), (4, 5), (2, 3, 4), (2, 3, 2, 2)])
def test_shapes_of_any_rank(shape):
    seen = set()

    def fn(x, sigma):
        seen.add((tuple(x.shape[1:]), x.dtype, sigma.dtype, tuple(sigma.shape)))
        return normal(x, sigma)

    model = dyweight.Model(fn, shape, "denoised", (0.01, 80))
    x = dyweight.sample(model, "ipndm", seeds=range(4), nfe=5)
    assert x.shape == (4, *shape) and x.dtype == torch.float32
    assert seen == {(shape, torch.float32, torch.float32, (4,))}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_the_models_own(dtype):
    seen = set()

    def fn(x, sigma):
        seen.add((x.dtype, sigma.dtype))
        return normal(x.float(), sigma).to(dtype)

    model = dyweight.Model(fn, (2,), "denoised", (0.01, 10), dtype=dtype)
    solver = dyweight.train(model, nfe=3, **{**SHORT, "iters": 3})
    assert dyweight.sample(model, solver, seeds=[0]).dtype == torch.float32
    assert seen == {(dtype, torch.float32)}


def test_a_table_of_levels_is_as_good_as_a_function():
    sigmas = np.exp(np.linspace(-4, 4, 50))
    told = []

    def fn(x, t):
        told.append(t)
        return x * 0

    model = dyweight.Model(fn, (2,), "eps", (sigmas[0], sigmas[-1]), sigmas, dtype=torch.float64)
    model(torch.zeros(3, 2), torch.tensor([sigmas[0], sigmas[7], sigmas[49]]))
    assert np.abs(told[0].numpy() - [0, 7, 49]).max() < 1e-9
    other = dyweight.Model(fn, (2,), "eps", (0.02, 50), lambda s: 2 * s, dtype=torch.float64)
    other(torch.zeros(1, 2), 3.0)
    assert told[1].item() == 6.0
    with pytest.raises(ValueError, match=r"x has shape \[4, 3\], not \[n, 2\]"):
        other(torch.zeros(4, 3), 3.0)
    with pytest.raises(ValueError, match=r"x has shape \[\], not \[n, 2\]"):
        other(1.0, 3.0)
    with pytest.raises(ValueError, match="rising"):
        dyweight.Model(fn, (2,), "eps", (0.02, 50), [3.0, 2.0, 1.0])


def test_conditions_reach_the_function():
    seen = []

    def fn(x, sigma, c):
        seen.append(c)
        shift = c.to(x.dtype) if isinstance(c, torch.Tensor) else torch.tensor([float(len(w or "")) for w in c])
        return normal(x, sigma) + 0.01 * shift.reshape(-1, 1)

    numbered = dyweight.Model(fn, (2,), "denoised", (0.01, 10), conditions=3)
    dyweight.train(numbered, nfe=3, **{**SHORT, "iters": 2})
    assert {int(i) for c in seen for i in c} == {0, 1, 2}
    seen.clear()
    # Under guidance each is asked with and without: two calls.
    guided = dyweight.train(numbered, nfe=6, guidance=2.0, **{**SHORT, "iters": 2, "teacher_nfe": 24})
    assert guided.nfe == 6 and guided.record["guidance"] == 2.0 and {int(i) for c in seen for i in c} == {-1, 0, 1, 2}
    seen.clear()
    words = dyweight.Model(fn, (2,), "denoised", (0.01, 10))
    dyweight.train(words, nfe=3, conditions=["a", "bc"], **{**SHORT, "iters": 2})
    assert {w for c in seen for w in c} == {"a", "bc"}
    a, b = (dyweight.sample(numbered, "ddim", seeds=[0], nfe=4, conditions=[c]) for c in (0, 2))
    assert not torch.equal(a, b)
    with pytest.raises(ValueError, match="classes 0 to 2"):
        dyweight.sample(numbered, "ddim", seeds=[0], nfe=4, conditions=[3])


def test_weights_of_a_module_keep_no_gradients():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
            self.states = set()

        def forward(self, x, sigma):
            self.states.add(self.layer.weight.requires_grad)
            return self.layer(x)

    net = Net().double()
    model = dyweight.Model(net, (2,), "eps", (0.01, 10))
    assert str(model._arrays) == "torch.float64 on cpu"
    dyweight.train(model, nfe=3, **{**SHORT, "iters": 2})
    assert net.states == {True, False} and net.layer.weight.requires_grad and net.layer.weight.grad is None


def test_other_devices_are_refused_in_words():
    with pytest.raises(ValueError, match="meta, which holds no numbers"):
        dyweight.Model(torch.nn.Linear(2, 2, device="meta"), (2,), "denoised", (0.1, 1))
    with pytest.raises(ValueError, match="meta"):
        dyweight.Model(normal, (2,), "denoised", (0.1, 1), device="meta")
    strays = dyweight.Model(lambda x, s: x.to("meta"), (2,), "denoised", (0.1, 1))
    with pytest.raises(ValueError, match="meta, which holds no numbers"):
        dyweight.sample(strays, "ddim", seeds=[0], nfe=3)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda x, s: x[:1], r"given shape \[2, 2\] and answered with \[1, 2\]"),
        (lambda x, s: x.numpy(), "answered with ndarray"),
        (lambda x, s: None, "answered with NoneType"),
        (lambda x, s: x.detach() * 0.5, "cannot be differentiated"),
    ],
)
def test_answers_that_cannot_be_used_are_named(fn, says):
    model = dyweight.Model(fn, (2,), "eps", (0.1, 10))
    with pytest.raises((ValueError, TypeError), match=says):
        dyweight.train(model, nfe=2, **{**SHORT, "batch": 2, "validation": 2})


def test_numbers_that_are_none_are_said_with_their_step():
    model = dyweight.Model(lambda x, s: x / 0 if s[0] < 1 else x / 2, (2,), "denoised", (0.1, 10))
    with pytest.raises(FloatingPointError, match="at step 3 .*network's output"):
        dyweight.sample(model, "ddim", seeds=[0], nfe=5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"nfe": 4, "itres": 3}, "no option 'itres'; did you mean 'iters'"),
        ({"nfe": 4, "lr": -1.0}, "lr=-1"),
        ({"nfe": 4, "iters": "many"}, "many"),
        ({}, "how many network calls"),
        ({"nfe": 4, "teacher": "ipdnm"}, "did you mean 'ipndm'"),
        ({"nfe": 4, "teacher_nfe": 9, "teacher_steps": 9}, "teacher_steps and teacher_nfe"),
        ({"nfe": 4, "prompts": "p.txt"}, "p.txt"),
    ],
)
def test_wrong_options_are_said(arguments, says):
    with pytest.raises((ValueError, TypeError, OSError), match=says):
        dyweight.train(mixtures.model(), **arguments)


class Mine(Exception):
    pass


class Counting:
    """The mixture, with something to keep for every call that is differentiated, failing at a given call."""

    live = most = 0

    def __init__(self, fail_at=None):
        self.calls, self.fail_at, self.raised = 0, fail_at, None
        self.fn = mixtures.spiral()

    def __call__(self, x, sigma):
        self.calls += 1
        if self.calls == self.fail_at:
            self.raised = Mine(f"call {self.calls}")
            raise self.raised
        return Kept.apply(self.fn(x, sigma))


class Activations:
    def __init__(self):
        Counting.live += 1
        Counting.most = max(Counting.most, Counting.live)

    def __del__(self):
        Counting.live -= 1


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.activations = Activations()
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return g


def counted(fail_at=None):
    fn = Counting(fail_at)
    Counting.most = Counting.live
    return fn, dyweight.Model(fn, (2, 1, 1), "denoised", (0.002, 80.0), dtype=torch.float64)


@pytest.mark.parametrize(("memory", "most"), [("recompute", 1), ("keep", 5), (None, 1)])
def test_recomputing_holds_the_activations_of_one_call(memory, most):
    assert Counting.live == 0
    _, model = counted()
    dyweight.train(model, nfe=5, memory=memory, plain=True, **{**SHORT, "validation": None})
    gc.collect()
    assert (Counting.most, Counting.live) == (most, 0)


def test_a_hundred_failures_leave_nothing_behind():
    """An exception at a random call comes back as itself, with the step, and the next run is as if nothing had been."""
    fn, model = counted()
    options = {**SHORT, "nfe": 4, "memory": "keep"}
    expected = dyweight.train(model, **options)
    every, draw = fn.calls, random.Random(0)
    for _ in range(100):
        failing, model = counted(draw.randint(1, every))
        with pytest.raises(Mine) as caught:
            dyweight.train(model, **options)
        assert caught.value is failing.raised
        assert any(note.startswith("dyweight: in step ") for note in caught.value.__notes__)
        # The exception itself holds the frames that hold the model.
        caught.value.__traceback__ = failing.raised = None
        del caught
    gc.collect()
    assert Counting.live == 0
    references = sys.getrefcount(model)
    fn, model = counted()
    assert dyweight.train(model, **options) == expected
    assert sys.getrefcount(model) <= references


def test_the_step_and_the_iteration_are_told():
    fn, model = counted()
    dyweight.train(model, nfe=4, plain=True, iters=2, batch=4, teacher_nfe=12, progress=False)
    # Two iterations: 12 calls of the teacher (for all pairs at once), then 4 forward and 4 again.
    fn, model = counted(fn.calls)
    with pytest.raises(Mine) as caught:
        dyweight.train(model, nfe=4, plain=True, iters=2, batch=4, teacher_nfe=12, progress=False)
    assert caught.value.__notes__ == ["dyweight: in step 1 of a solver, counted from 0, after 1 iterations of training"]
    fn, model = counted(3)
    with pytest.raises(Mine) as caught:
        dyweight.sample(model, "ddim", seeds=[0], nfe=5)
    assert caught.value.__notes__ == ["dyweight: in step 2 of a solver, counted from 0"]


def test_what_a_callback_raises_ends_the_run():
    def stop(state):
        if state.index == 2:
            raise Mine("enough")

    fn, model = counted()
    with pytest.raises(Mine, match="enough"):
        dyweight.sample(model, "ddim", seeds=[0], nfe=5, callback=stop)
    assert fn.calls == 2
    seen = []

    def watch(iteration):
        seen.append(iteration)
        if iteration.index == 3:
            raise Mine("enough")

    with pytest.raises(Mine, match="enough"):
        dyweight.train(model, nfe=4, **{**SHORT, "progress": watch})
    assert [i.index for i in seen] == [0, 1, 2, 3] and seen[0].iterations == SHORT["iters"]


def test_ctrl_c_in_a_call_and_between_calls(tmp_path):
    def fn(x, sigma):
        fn.calls += 1
        if fn.calls == 40:
            signal.raise_signal(signal.SIGINT)
        return mixture(x, sigma)

    fn.calls, mixture = 0, mixtures.spiral()
    model = dyweight.Model(fn, (2, 1, 1), "denoised", (0.002, 80.0), dtype=torch.float64, fingerprint="m")
    options = {**SHORT, "nfe": 4, "out": tmp_path / "a.json"}
    with pytest.raises(KeyboardInterrupt):
        dyweight.train(model, **options)
    assert fn.calls == 40 and (tmp_path / "a.state").exists() and not (tmp_path / "a.json").exists()
    resumed = dyweight.train(model, **options, resume=True)
    fn.calls = 100
    assert resumed == dyweight.train(model, **{**options, "out": tmp_path / "b.json"})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_ctrl_c_from_the_keyboard(tmp_path):
    code = """
        import sys, time
        sys.path[:0] = %r
        import dyweight, mixtures
        fn = mixtures.spiral()
        def slow(x, sigma):
            time.sleep(0.01)
            return fn(x, sigma)
        model = mixtures.model()
        model.fn = slow
        print("ready", flush=True)
        try:
            dyweight.train(model, nfe=4, iters=100000, batch=4, validation=4, progress=False)
        except KeyboardInterrupt:
            print("interrupted")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code) % mixtures.paths()], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out == "interrupted\n" and process.returncode == 0


def test_other_threads_run_while_the_library_computes():
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begun = time.perf_counter()
    dyweight.noise(range(400_000), (4,))
    ended = time.perf_counter()
    done.set()
    thread.join()
    inside = [t for t in ticks if begun < t < ended]
    assert ended - begun > 0.02 and len(inside) > 5, (ended - begun, len(inside))


def test_the_fingerprint_is_of_the_answers():
    a, b = mixtures.model(), mixtures.model()
    assert a.fingerprint == b.fingerprint and len(a.fingerprint) == 64
    b = dyweight.Model(lambda x, s: a.fn(x, s) * (1 + 1e-12), (2, 1, 1), "denoised", (0.002, 80.0), dtype=torch.float64)
    assert a.fingerprint != b.fingerprint
    assert dyweight.Model(normal, (2,), "denoised", (0.1, 1), fingerprint="mine").fingerprint == "mine"


def test_stubs_name_what_is_there():
    import re
    from pathlib import Path

    from dyweight import _native

    package = Path(dyweight.__file__).parent
    stubs = set(re.findall(r"^(?:def|class) (\w+)", (package / "_native.pyi").read_text(), re.M))
    assert stubs == {name for name in dir(_native) if not name.startswith("__")}
    assert (package / "py.typed").exists()
    assert os.path.basename(_native.__file__).startswith("_native.")
    for name in dyweight.__all__:
        assert getattr(dyweight, name).__doc__, name


def denoise_half(x, t):
    return x / 2


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
@pytest.mark.parametrize("table", [None, [0.1, 1.0, 10.0]])
def test_models_are_copied_and_pickled_where_their_functions_are(arrays, table):
    import copy
    import pickle

    model = dyweight.Model(denoise_half, (2,), "denoised", (0.1, 10.0), table, arrays=arrays)
    x = np.ones((1, 2))
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert repr(other) == repr(model) and other.fingerprint == model.fingerprint
        assert np.asarray(other(x, 3.0)).tolist() == np.asarray(model(x, 3.0)).tolist()


@pytest.mark.parametrize(
    ("name", "ours"), [("epsilon", "eps"), ("v_prediction", "v"), ("sample", "denoised"), ("flow_prediction", "velocity")]
)
def test_predictions_have_the_names_of_diffusers_too(name, ours):
    model = dyweight.Model(denoise_half, (2,), name, (0.1, 0.9), arrays="numpy")
    assert model.prediction == ours
    assert model(np.ones((1, 2)), 0.5).tolist() == dyweight.Model(denoise_half, (2,), ours, (0.1, 0.9), arrays="numpy")(np.ones((1, 2)), 0.5).tolist()
