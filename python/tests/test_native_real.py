"""The examples on models that others trained: the runner on a model with a closed form, and how files are read."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import dyweight

EXAMPLES = Path(__file__).parent.parent / "examples" / "real"


@pytest.fixture(scope="module", autouse=True)
def examples():
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def two_gaussians(x, sigma):
    means = torch.linspace(-0.7, 0.6, 24, dtype=x.dtype).reshape(2, 12)
    variance = 0.02 + sigma[:, None] ** 2
    near = torch.softmax(-(torch.cdist(x, means) ** 2) / (2 * variance), -1)
    return (0.02 * x + sigma[:, None] ** 2 * (near @ means)) / variance


def arguments(out: Path, **given):
    usual = dict(
        model="two",
        folder=None,
        calls=[4],
        trainings=2,
        fresh=24,
        search_pairs=8,
        train=["optimiser=gauss-newton", "iters=3"],
        out=out,
    )
    return argparse.Namespace(**{**usual, **given})


@pytest.fixture
def run(monkeypatch, tmp_path):
    import run as runner
    from subject import Subject

    def load(args):
        model = dyweight.Model(two_gaussians, (12,), "denoised", (0.01, 20.0), dtype=torch.float64, name="two")
        return Subject(model, lambda x: x.numpy(), curves=True, teacher_nfe=40)

    monkeypatch.setitem(runner.MODELS, "two", load)
    return lambda **given: runner.Run(arguments(tmp_path / "out", **given))


def test_a_learned_solver_is_judged_with_both_errors(run, tmp_path, capsys):
    from measuring import squares

    one = run()
    one.table()
    told = capsys.readouterr().out
    found = json.loads((tmp_path / "out/nfe4.json").read_text())
    assert found["settings"] > 100 and found["calls"] == 4
    fresh = one.truth(5_000_000, 24)
    for training in range(2):
        solver = dyweight.Solver.load(tmp_path / f"out/learned-nfe4-{training}.json")
        ends = dyweight.sample(one.subject.model, solver, fresh.noise).numpy()
        expected = math.sqrt(squares(ends, fresh).mean())
        assert found["learned_distance"]["per_training"][training] == pytest.approx(expected, rel=1e-9)
    assert found["gain"]["percent"] < -20, told
    assert found["training_calls"] > 40 * 16
    assert (tmp_path / "out/nfe4.png").stat().st_size > 1000
    # Nothing is computed again.
    again = run()
    again.table()
    assert again.counted.calls == 0
    assert capsys.readouterr().out.splitlines()[-1] == told.splitlines()[-1]


def test_the_search_finds_the_best_setting_of_its_list(run):
    import searching

    one = run()
    pairs = one.truth(1_000_000, 8)
    best, tried = searching.best(one.subject, 4, pairs, lambda text: None)
    tries = (searching.distance(setting, one.subject, 4, pairs) for setting in searching.settings(one.subject))
    everything = [value for value in tries if value is not None]
    assert tried == len(everything)
    assert searching.distance(best, one.subject, 4, pairs) < 1.1 * min(everything)


def test_errors_are_those_of_repeated_draws():
    from measuring import Distance, Gain

    generator = np.random.default_rng(0)
    ratios, claimed, roots, errors = [], [], [], []
    for _ in range(300):
        common = generator.gamma(2.0, 1.0, 100)
        rival, learned = common * generator.uniform(0.9, 1.1, 100), 0.25 * common * generator.uniform(0.8, 1.2, 100)
        gain, distance = Gain.of([learned], rival), Distance.of([rival])
        ratios.append(gain.percent)
        claimed.append(gain.error)
        roots.append(distance.value)
        errors.append(distance.error)
    assert np.mean(claimed) == pytest.approx(np.std(ratios), rel=0.15)
    assert np.mean(errors) == pytest.approx(np.std(roots), rel=0.15)
    assert np.mean(ratios) == pytest.approx(-50, abs=0.5)
    # Two trainings far apart say little.
    assert not Gain.of([0.3 * common, 0.9 * common], common).clear
    assert Gain.of([0.3 * common, 0.31 * common, 0.3 * common], common).clear


def test_arrays_one_after_another(tmp_path):
    import galaxies

    given = [np.arange(6.0).reshape(2, 3), np.float32(7.0), np.ones((1, 2, 2), np.float32)]
    with (tmp_path / "file.eqx").open("wb") as file:
        for array in given:
            np.save(file, array)
    found = galaxies.arrays(tmp_path / "file.eqx")
    assert [tuple(array.shape) for array in found] == [(2, 3), (), (1, 2, 2)]
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(found, given))


def graph(net, kinds, folder: Path) -> None:
    """A network as a TensorFlow.js graph of eight-bit weights, its layers numbered from 40 and listed backwards."""
    parts, data = [], b""
    names = {
        "conv2d": ("Conv2D", "BiasAdd"),
        "dense": ("MatMul", "BiasAdd"),
        "group_normalization": ("Reshape_1", "Reshape_2"),
    }
    for kind, name in kinds.items():
        for number, module in reversed(list(enumerate(m for m in net.modules() if type(m) is kind))):
            weight = module.weight.detach()
            weight = weight.permute(2, 3, 1, 0) if weight.ndim == 4 else weight.T if weight.ndim == 2 else weight
            for operation, tensor in zip(names[name], (weight, module.bias.detach())):
                low, scale = float(tensor.min()), float(tensor.max() - tensor.min()) / 255 or 1.0
                codes = ((tensor - low) / scale).round().to(torch.uint8).contiguous()
                data += codes.numpy().tobytes()
                lattice = {"dtype": "uint8", "min": low, "scale": scale}
                entry = f"StatefulPartitionedCall/unet/{name}_{40 + number}/{operation}/ReadVariableOp"
                parts.append({"name": entry, "shape": list(tensor.shape), "dtype": "float32", "quantization": lattice})
                parts.append(
                    {"name": f"StatefulPartitionedCall/unet/{name}_{40 + number}/stack", "shape": [2], "dtype": "int32"}
                )
                data += b"\0" * 8
    half = len(data) // 2
    (folder / "a.bin").write_bytes(data[:half])
    (folder / "b.bin").write_bytes(data[half:])
    manifest = [{"paths": ["a.bin", "b.bin"], "weights": parts}]
    (folder / "model.json").write_text(json.dumps({"weightsManifest": manifest}))


def test_a_published_graph_is_read_layer_by_layer(tmp_path, monkeypatch):
    import faces

    monkeypatch.setattr(faces, "WIDTHS", (8, 8, 16, 16))
    monkeypatch.setattr(faces, "TIME", 16)
    torch.manual_seed(0)
    net = faces.UNet().eval()
    for module in net.modules():
        if isinstance(module, torch.nn.GroupNorm):
            torch.nn.init.normal_(module.weight, 1.0, 0.1)
            torch.nn.init.normal_(module.bias, 0.0, 0.1)
    graph(net, faces.KINDS, tmp_path)
    subject = faces.load(argparse.Namespace(folder=tmp_path))
    x, t = torch.randn(2, 3, 64, 64), torch.tensor([3.0, 250.5])
    with torch.no_grad():
        expected, found = net(x, t), subject.model.fn(x, t)
    # Eight bits a weight are what is lost.
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()
    assert (found - expected).abs().max() > 0
    with pytest.raises(SystemExit, match="no model.json"):
        faces.load(argparse.Namespace(folder=tmp_path / "elsewhere"))
    with pytest.raises(SystemExit, match="--folder is missing"):
        faces.load(argparse.Namespace(folder=None))
