"""Times PyTorch on a U-Net with the topology of the EDM CIFAR-10 network (55.7 M parameters, random weights).

The peer of `cargo run --release --example unet -p dyweight-nn`: same layers, same shapes, f32, eager mode, weights frozen.

    python benches/peers/edm_unet.py --what forward --batch 8 --threads 2 --runs 5 [--memory-format channels-last]

Prints one JSON line (`measured.py`).
"""

import argparse
import math

import torch
from measured import report
from torch import nn
from torch.nn import functional as F

CHANNELS = 256
EMBEDDING = 512
SCALE = math.sqrt(0.5)


class Attention(nn.Module):
    """One head over all channels; query, key and value interleaved fastest, as EDM stores them."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels, eps=1e-6)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.projection = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, c, 3, h * w).unbind(2)
        weights = torch.einsum("nct,ncu->ntu", q, k / math.sqrt(c)).softmax(2)
        attended = torch.einsum("ntu,ncu->nct", weights, v).reshape(n, c, h, w)
        return (self.projection(attended) + x) * SCALE


class Block(nn.Module):
    """norm, SiLU, (resample,) 3x3; add the embedding; norm, SiLU, 3x3; add the skip path; attention."""

    def __init__(self, inputs, direction=None, attention=False):
        super().__init__()
        self.direction = direction
        self.norm0 = nn.GroupNorm(32, inputs, eps=1e-6)
        self.conv0 = nn.Conv2d(inputs, CHANNELS, 3, padding=1)
        self.affine = nn.Linear(EMBEDDING, CHANNELS)
        self.norm1 = nn.GroupNorm(32, CHANNELS, eps=1e-6)
        self.conv1 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.skip = nn.Conv2d(inputs, CHANNELS, 1) if inputs != CHANNELS or direction else None
        self.attention = Attention(CHANNELS) if attention else None

    def resample(self, x):
        if self.direction == "down":
            return F.avg_pool2d(x, 2)
        if self.direction == "up":
            return F.interpolate(x, scale_factor=2, mode="nearest")
        return x

    def forward(self, x, e):
        h = self.conv0(self.resample(F.silu(self.norm0(x))))
        h = F.silu(self.norm1(h + self.affine(e)[:, :, None, None]))
        x = self.resample(x)
        x = (self.conv1(h) + (x if self.skip is None else self.skip(x))) * SCALE
        return x if self.attention is None else self.attention(x)


class UNet(nn.Module):
    """The plan: 32x32 (3 -> 128 -> 256), 16x16 with attention, 8x8, and back."""

    def __init__(self):
        super().__init__()
        self.map0, self.map1 = nn.Linear(128, EMBEDDING), nn.Linear(EMBEDDING, EMBEDDING)
        self.first = nn.Conv2d(3, 128, 3, padding=1)
        self.encoder, self.decoder, self.joins = nn.ModuleList(), nn.ModuleList(), []
        inputs = 128
        for level in range(3):
            if level > 0:
                self.encoder.append(Block(CHANNELS, "down"))
            for _ in range(4):
                self.encoder.append(Block(inputs, attention=level == 1))
                inputs = CHANNELS
        self.add(Block(CHANNELS, attention=True), False)
        self.add(Block(CHANNELS), False)
        for level in reversed(range(3)):
            if level < 2:
                self.add(Block(CHANNELS, "up"), False)
            for block in range(5):
                skip = 128 if level == 0 and block == 4 else CHANNELS
                self.add(Block(CHANNELS + skip, attention=level == 1 and block == 4), True)
        self.norm = nn.GroupNorm(32, CHANNELS, eps=1e-6)
        self.last = nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def add(self, block, joins):
        self.decoder.append(block)
        self.joins.append(joins)

    def forward(self, x, noise):
        angle = noise[:, None] * 10000.0 ** (-torch.arange(64) / 63)
        e = F.silu(self.map1(F.silu(self.map0(torch.cat([angle.sin(), angle.cos()], 1).to(noise.dtype)))))
        x = self.first(x)
        skips = [x]
        for block in self.encoder:
            x = block(x, e)
            skips.append(x)
        for block, joins in zip(self.decoder, self.joins):
            x = block(torch.cat([x, skips.pop()], 1) if joins else x, e)
        return self.last(F.silu(self.norm(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=["forward", "gradient", "train"], default="forward")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--memory-format", choices=["contiguous", "channels-last"], default="contiguous")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    net = UNet().requires_grad_(False).eval().to(dtype)
    x, cotangent = torch.randn(2, options.batch, 3, 32, 32, dtype=dtype)
    noise = torch.randn(options.batch, dtype=dtype)
    if options.memory_format == "channels-last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)

    def forward():
        with torch.no_grad():
            net(x, noise)

    def gradient():
        inputs = x.clone().requires_grad_(True), noise.clone().requires_grad_(True)
        net(*inputs).backward(cotangent)

    def train():
        """One training iteration as the reference makes it: 35 teacher calls, 5 student calls kept for the gradient."""
        weights = torch.ones(5, requires_grad=True)
        with torch.no_grad():
            target = x
            for _ in range(35):
                target = 0.9 * target + 0.1 * net(target, noise)
        state = x
        for weight in weights:
            state = (1 - 0.1 * weight) * state + 0.1 * weight * net(state, noise)
        torch.autograd.grad(((state - target) ** 2).mean(), weights)

    run = {"forward": forward, "gradient": gradient, "train": train}[options.what]
    training = options.what == "train"
    report(run, options.runs, options.batch, warm=not training)


if __name__ == "__main__":
    main()
