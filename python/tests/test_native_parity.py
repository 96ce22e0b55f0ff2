"""The built-in mixture restated in torch and numpy gives, through the package, the numbers of the program."""

import mixtures
import numpy as np
import pytest
from safetensors.numpy import load_file

import dyweight

NUMPY = {False: mixtures.numpy_model}


def sampled(run, tmp_path, name, *options):
    run("sample", "--model", name, *options, "--seeds", "0-7", "--trajectory", tmp_path / "t.safetensors")
    return load_file(tmp_path / "t.safetensors")["trajectory"]


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("solver", ["ipndm:3", "dpmpp:2", "unipc", "heun", "ddim+afs"])
def test_handcrafted_solvers(run, tmp_path, solver, flow):
    name, order = (*solver.split("+")[0].split(":"), None)[:2]
    options = ["--solver", name, "--nfe", "6", *(["--order", order] if order else [])]
    options += ["--afs"] if solver.endswith("+afs") else []
    ours = sampled(run, tmp_path, "mixture-flow" if flow else "mixture", *options)
    states = []
    x = dyweight.sample(
        mixtures.model(flow), solver, seeds=range(8), nfe=6, callback=lambda s: states.append(s.x.numpy())
    )
    assert np.abs(np.array(states) - ours).max() < 1e-10
    assert np.abs(x.numpy() - ours[-1]).max() < 1e-10


@pytest.mark.parametrize("name", ["afs", "window-4", "flow", "flow-afs", "no-scale"])
def test_learned_solvers(trained, trajectory, name):
    noise = dyweight.noise(range(8), (2, 1, 1))
    flow = name.startswith("flow")
    ours = trajectory(trained(name), noise, "mixture-flow" if flow else "mixture")
    x = dyweight.sample(mixtures.model(flow), dyweight.Solver.load(trained(name)), noise, batch=3)
    assert np.abs(x.numpy() - ours[-1]).max() < 1e-10


@pytest.mark.parametrize("kind", ["torch", "eps", "v", "numpy", "numpy-eps"])
def test_every_kind_of_prediction(run, tmp_path, kind):
    """ε and v predictions are made of the data prediction, and made into it again."""
    ours = sampled(run, tmp_path, "mixture", "--solver", "ipndm", "--nfe", "6")[-1]
    plain = mixtures.model()
    if kind == "numpy":
        model = mixtures.numpy_model()
    elif kind.endswith(("eps", "v")) and kind != "torch":
        fn = mixtures.unlike(plain, kind.removeprefix("numpy-"))
        if kind.startswith("numpy"):
            torch_fn = fn
            fn = lambda x, s: torch_fn(*map(__import__("torch").as_tensor, (x, s))).numpy()  # noqa: E731
        model = dyweight.Model(
            fn, (2, 1, 1), kind.removeprefix("numpy-"), (0.002, 80.0), dtype=None if "numpy" in kind else plain._arrays.dtype,
            arrays="numpy" if "numpy" in kind else None,
        )  # fmt: skip
    else:
        model = plain
    x = dyweight.sample(model, "ipndm", seeds=range(8), nfe=6)
    assert np.abs(np.asarray(x) - ours).max() < 1e-10


TRAINING = {
    "guarded": (["--nfe", "5"], {"nfe": 5}),
    "plain": (["--nfe", "4", "--plain", "--lr", "0.02"], {"nfe": 4, "plain": True, "lr": 0.02}),
    "keep": (["--nfe", "4", "--memory", "keep", "--order", "2"], {"nfe": 4, "memory": "keep", "order": 2}),
    "path": (["--nfe", "3", "--supervision", "path"], {"nfe": 3, "supervision": "path"}),
    "schedule": (
        ["--steps", "4", "--schedule", "logsnr", "--loss", "huber", "--optimiser", "adamw"],
        {"steps": 4, "schedule": "logsnr", "loss": "huber", "optimiser": "adamw"},
    ),
    "second order": (["--nfe", "3", "--optimiser", "newton"], {"nfe": 3, "optimiser": "newton"}),
    "flow": (["--nfe", "4"], {"nfe": 4}),
}


@pytest.mark.parametrize("name", TRAINING)
def test_training_takes_the_same_way(run, tmp_path, name):
    """Numbers, losses and gradients of all 40 iterations, with the program's own defaults for the rest."""
    flags, options = TRAINING[name]
    flow = name == "flow"
    common = ["--iters", "40", "--batch", "8"]
    common += [] if name == "plain" else ["--validation", "16"]
    common += [] if name == "path" else ["--teacher-nfe", "15"]
    run("train", "--model", "mixture-flow" if flow else "mixture", *flags, *common, "--out", tmp_path / "a.json",
        "--trace", tmp_path / "a.safetensors")  # fmt: skip
    same = {"iters": 40, "batch": 8}
    same |= {} if name == "plain" else {"validation": 16}
    same |= {} if name == "path" else {"teacher_nfe": 15}
    solver = dyweight.train(
        mixtures.model(flow), **options, **same, trace=tmp_path / "b.safetensors", progress=False, micro_batch=3
    )
    ours, theirs = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    assert set(ours) == set(theirs) and ours["loss"].shape == (40,)
    for key in ours:
        assert np.abs(ours[key] - theirs[key]).max() < 1e-8, key
    program = dyweight.Solver.load(tmp_path / "a.json")
    assert np.abs(program.weights - solver.weights).max() < 1e-8
    assert np.abs(program.times - solver.times).max() < 1e-8


def test_numpy_trains_like_torch(tmp_path):
    options = {"nfe": 4, "iters": 10, "batch": 8, "validation": 8, "teacher_nfe": 12, "progress": False}
    a, b = dyweight.train(mixtures.model(), **options), dyweight.train(mixtures.numpy_model(), **options)
    assert np.abs(a.weights - b.weights).max() < 1e-9


def test_a_derivative_in_the_level_is_found_where_none_is_given():
    """ε prediction in numpy: the chain rule by hand, the level by differences."""
    import torch

    plain = mixtures.model()
    fn = mixtures.unlike(plain, "eps")

    def call(x, s):
        return fn(torch.as_tensor(x), torch.as_tensor(s)).numpy()

    def vjp(x, s, g):
        x = torch.as_tensor(x).requires_grad_()
        return torch.autograd.grad(fn(x, torch.as_tensor(s)), x, torch.as_tensor(g))[0].numpy()

    options = {"nfe": 4, "iters": 10, "batch": 8, "validation": 8, "teacher_nfe": 12, "progress": False}
    model = dyweight.Model(call, (2, 1, 1), "eps", (0.002, 80.0), vjp=vjp, bounded=True)
    a, b = dyweight.train(plain, **options), dyweight.train(model, **options)
    assert np.abs(a.weights - b.weights).max() < 1e-4
