"""Times PyTorch on Inception-v3 as the FID uses it: images of 299x299, already resized and scaled, to 2048 features.

The peer of `dyweight bench --inception FILE`: the same layers and weights, f32, either as the TorchScript file itself or as an
eager module of convolution, batch norm and ReLU with that file's weights.

    python benches/peers/inception.py FILE.pt --net eager --what forward --batch 8 --threads 2 --runs 5 [--memory-format channels-last]

Prints one JSON line (`measured.py`).
"""

import argparse

import torch
from measured import report
from torch import nn
from torch.nn import functional as F

ONE, THREE, FIVE, WIDE, TALL = (1, 1), (3, 3), (5, 5), (1, 7), (7, 1)


class Unit(nn.Module):
    """Convolution without bias, normalisation with fixed statistics, ReLU. `mode`: "same", "valid" or "half"."""

    def __init__(self, inputs, outputs, kernel, mode="same"):
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2) if mode == "same" else 0
        self.conv = nn.Conv2d(inputs, outputs, kernel, 2 if mode == "half" else 1, padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)), inplace=True)


class Fork(nn.Module):
    """Branches side by side, joined along channels."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def chain(inputs, *units):
    layers = []
    for unit in units:
        layers.append(Unit(inputs, *unit))
        inputs = unit[0]
    return nn.Sequential(*layers)


def mean():
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


def a(i, pool):
    return Fork(
        chain(i, (64, ONE)),
        chain(i, (48, ONE), (64, FIVE)),
        chain(i, (64, ONE), (96, THREE), (96, THREE)),
        nn.Sequential(mean(), Unit(i, pool, ONE)),
    )


def b():
    return Fork(
        chain(288, (384, THREE, "half")),
        chain(288, (64, ONE), (96, THREE), (96, THREE, "half")),
        nn.MaxPool2d(3, 2),
    )


def c(w):
    return Fork(
        chain(768, (192, ONE)),
        chain(768, (w, ONE), (w, WIDE), (192, TALL)),
        chain(768, (w, ONE), (w, TALL), (w, WIDE), (w, TALL), (192, WIDE)),
        nn.Sequential(mean(), Unit(768, 192, ONE)),
    )


def d():
    return Fork(
        chain(768, (192, ONE), (320, THREE, "half")),
        chain(768, (192, ONE), (192, WIDE), (192, TALL), (192, THREE, "half")),
        nn.MaxPool2d(3, 2),
    )


def e(i, pool):
    both = lambda: Fork(Unit(384, 384, (1, 3)), Unit(384, 384, (3, 1)))
    return Fork(
        chain(i, (320, ONE)),
        nn.Sequential(Unit(i, 384, ONE), both()),
        nn.Sequential(Unit(i, 448, ONE), Unit(448, 384, THREE), both()),
        nn.Sequential(pool, Unit(i, 192, ONE)),
    )


class Inception(nn.Sequential):
    def __init__(self):
        super().__init__(
            Unit(3, 32, THREE, "half"), Unit(32, 32, THREE, "valid"), Unit(32, 64, THREE), nn.MaxPool2d(3, 2),
            Unit(64, 80, ONE), Unit(80, 192, THREE, "valid"), nn.MaxPool2d(3, 2),
            a(192, 32), a(256, 64), a(288, 64), b(), c(128), c(160), c(160), c(192), d(),
            e(1280, mean()), e(2048, nn.MaxPool2d(3, 1, 1)),
        )  # fmt: skip

    def forward(self, x):
        return super().forward(x).mean((2, 3))

    def units(self):
        """In the order of the files."""
        return [module for module in self.modules() if isinstance(module, Unit)]

    def load(self, units):
        """Takes `(weight, beta, mean, variance)` per unit."""
        for unit, (weight, beta, mean, variance) in zip(self.units(), units, strict=True):
            unit.conv.weight.data.copy_(weight)
            unit.norm.bias.data.copy_(beta)
            unit.norm.running_mean.copy_(mean)
            unit.norm.running_var.copy_(variance)
        return self.requires_grad_(False).eval()


def script_units(script):
    """The weights of the TorchScript file, which stores its units in the same order."""
    values = list(script.state_dict().items())
    assert len(values) == 4 * 94, len(values)
    parts = [name.rsplit(".", 1)[1] for name, _ in values[:4]]
    order = [parts.index(part) for part in ("weight", "beta", "mean", "var")]
    return [[values[4 * i + k][1] for k in order] for i in range(94)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--net", choices=["eager", "script"], default="eager")
    parser.add_argument("--what", choices=["forward", "gradient"], default="forward")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory-format", choices=["contiguous", "channels-last"], default="contiguous")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    script = torch.jit.load(options.file, map_location="cpu").eval()
    net = script if options.net == "script" else Inception().load(script_units(script))
    x = torch.rand(options.batch, 3, 299, 299) * 2 - 1
    cotangent = torch.randn(options.batch, 2048)
    if options.memory_format == "channels-last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)

    def forward():
        with torch.no_grad():
            return net(x)

    def gradient():
        inputs = x.clone().requires_grad_(True)
        net(inputs).backward(cotangent)

    run = {"forward": forward, "gradient": gradient}[options.what]
    # TorchScript optimises during its first calls.
    report(run, options.runs, options.batch, warm=3 if options.net == "script" else 1, counted=options.net == "eager")


if __name__ == "__main__":
    main()
