"""Reference values of the feature network `fashion-judge`, for the tests of the engine: PyTorch in double precision.

usage: make_judge_fixture.py crates/dyweight-models/assets/fashion_judge.safetensors crates/dyweight-models/tests/data/fashion_judge_io.safetensors
"""
import sys

import torch
import torch.nn.functional as F

import tensor_file


def features(weights, x):
    """The network with its normalisation folded in, as the asset has it."""
    def conv(name, x, stride=1):
        weight = weights[f"{name}.weight"]
        return F.conv2d(x, weight, weights[f"{name}.bias"], stride, weight.shape[-1] // 2)

    def block(name, x):
        return F.relu(x + conv(f"{name}2", F.relu(conv(f"{name}1", x))))

    fine = block("fine", F.relu(conv("stem", x, 2)))
    coarse = block("coarse", F.relu(conv("down", fine, 2)))
    return torch.cat([fine.mean((2, 3)), coarse.mean((2, 3))], 1)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    weights = tensor_file.load(sys.argv[1])
    torch.manual_seed(0)
    # Smooth shapes on a dark ground, as clothes are, and one of plain noise.
    smooth = F.avg_pool2d(F.avg_pool2d(torch.randn(4, 1, 40, 40, dtype=torch.float64), 7, 1), 7, 1)
    x = (6 * smooth).clamp(-1, 1)
    x[3] = torch.randn(1, 28, 28, dtype=torch.float64).clamp(-1, 1)
    x.requires_grad_()
    found = features(weights, x)
    cotangent = torch.randn_like(found)
    to_x, = torch.autograd.grad(found, x, cotangent)
    logits = F.linear(found, weights["head.weight"], weights["head.bias"])
    tensor_file.save(sys.argv[2], {"x": x, "features": found, "cotangent": cotangent, "grad_x": to_x, "logits": logits})


if __name__ == "__main__":
    main()
