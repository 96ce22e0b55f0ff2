"""Makes `crates/dyweight-models/tests/data/inception.safetensors`: what the tests of the feature network compare with.

    python tools/make_inception_fixture.py GOLDEN

The network's weights are given by a formula (`formula`), which the tests compute again, so the file holds only images, features
and a gradient, all evaluated in f64 with PyTorch. GOLDEN is a safetensors file with the first 28-pixel image after either rule of
preprocessing, recorded with the original tools; a twenty-fifth of it is kept.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "benches/peers"), str(ROOT / "tools")]
import tensor_file  # noqa: E402
from inception import Inception  # noqa: E402


def uniform(tensor, count):
    """Numbers in [0, 1) of the tensor with this number."""
    x = (np.uint64(tensor) << np.uint64(32) | np.arange(count, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / 2.0**24


def formula(unit, part, shape):
    """Of unit number `unit`: weight, gain, bias, mean or variance."""
    u = uniform(5 * unit + part, int(np.prod(shape)))
    fan_in = np.prod(shape[1:])
    values = [
        lambda: (2 * u - 1) * np.sqrt(6 / fan_in),
        lambda: 0.8 + 0.4 * u,
        lambda: 0.2 * (2 * u - 1),
        lambda: 0.2 * (2 * u - 1),
        lambda: 0.5 + u,
    ][part]()
    return torch.from_numpy(values.astype(np.float32).reshape(shape)).double()


def network():
    net = Inception().double()
    for i, unit in enumerate(net.units()):
        norm = unit.norm
        targets = [unit.conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var]
        for part, target in enumerate(targets):
            target.data.copy_(formula(i, part, tuple(target.shape)))
    return net.requires_grad_(False).eval()


def resized(x, rule):
    """`x` in [-1, 1] as the network sees it."""

    def taps(size):
        i = torch.arange(299, dtype=torch.float64)
        at = i * size / 299 if rule == "edm" else ((i + 0.5) * size / 299 - 0.5).clamp(min=0)
        before = at.clamp(max=size - 1).floor().long()
        return before, (before + 1).clamp(max=size - 1), at.clamp(max=size - 1) - before

    p = 127.5 * x + 128
    before, after, weight = taps(x.shape[2])
    p = p[:, :, before] * (1 - weight)[:, None] + p[:, :, after] * weight[:, None]
    before, after, weight = taps(x.shape[3])
    p = p[..., before] * (1 - weight) + p[..., after] * weight
    p = (p - 128) / 128 if rule == "edm" else 2 * p / 255 - 1
    return p.expand(-1, 3, -1, -1)


def load(path, *names):
    """Some tensors of a safetensors file."""
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    entries = [header[name] for name in names]
    dtypes = {"U8": np.uint8, "F32": np.float32}
    return [np.frombuffer(body[slice(*e["data_offsets"])], dtypes[e["dtype"]]).reshape(e["shape"]) for e in entries]


def main():
    net = network()
    out = {}
    for name, shape in (("colour", (2, 3, 12, 10)), ("grey", (1, 1, 7, 9))):
        x = torch.from_numpy(2 * uniform(1000 + len(name), int(np.prod(shape))).reshape(shape) - 1).float().double()
        out[f"images_{name}"] = x
        cotangent = torch.from_numpy(2 * uniform(2000, 2048) - 1).float().double()
        for rule in ("edm", "pytorch-fid"):
            inputs = x.clone().requires_grad_(True)
            features = net(resized(inputs, rule))
            (gradient,) = torch.autograd.grad((features * cotangent).sum(), inputs)
            out[f"features_{name}_{rule}"] = features
            out[f"gradient_{name}_{rule}"] = gradient
            print(name, rule, "features", features.mean().item(), features.std().item())
        out["cotangent"] = cotangent
    images, edm, pytorch_fid = load(sys.argv[1], "images_28", "preprocessed_28_0_gray", "preprocessed_ptfid_28_0_gray")
    out["pixels_28"] = torch.from_numpy(images[0, 0].astype(np.float32))
    out["seen_edm"] = torch.from_numpy(edm[::5, ::5].copy())
    out["seen_pytorch-fid"] = torch.from_numpy(pytorch_fid[::5, ::5].copy())
    tensor_file.save(ROOT / "crates/dyweight-models/tests/data/inception.safetensors", out)


if __name__ == "__main__":
    main()
