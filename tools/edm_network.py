"""The EDM networks in PyTorch, written from their description: used to train the embedded model and to make test data.

SongUNet (DDPM++, NCSN++) and DhariwalUNet (ADM) in the EDM, VP, VE and iDDPM preconditionings of Karras et al. 2022. Tensor
names are those of the released checkpoints. `build(config)` takes the same options as the program's configuration files.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def group_norm(channels, eps):
    return nn.GroupNorm(min(32, channels // 4), channels, eps=eps)


class Resample(nn.Module):
    """Halves or doubles with a separable filter; zeros outside, no renormalisation at the border."""

    def __init__(self, direction, taps):
        super().__init__()
        self.direction, self.pad = direction, (len(taps) - 1) // 2
        taps = torch.tensor(taps, dtype=torch.float32)
        self.register_buffer("resample_filter", (torch.outer(taps, taps) / taps.sum() ** 2)[None, None])

    def forward(self, x, pad=None):
        channels, pad = x.shape[1], self.pad if pad is None else pad
        kernel = self.resample_filter.expand(channels, 1, -1, -1)
        if self.direction == "down":
            return F.conv2d(x, kernel, stride=2, padding=pad, groups=channels)
        return F.conv_transpose2d(x, 4 * kernel, stride=2, padding=pad, groups=channels)


class Conv(nn.Conv2d):
    """Resampling, then a k×k convolution; `fused` convolves first, at the old resolution, and halves after."""

    def __init__(self, inputs, outputs, kernel, direction=None, taps=(1, 1), fused=False):
        super().__init__(inputs, outputs, kernel, padding=kernel // 2)
        self.fused, resample = fused, Resample(direction, taps) if direction else None
        if resample:
            self.register_buffer("resample_filter", resample.resample_filter)
        self._resample = [resample]  # in a list: the buffer is registered here, under the name files use

    def forward(self, x):
        resample = self._resample[0]
        if resample is None:
            return super().forward(x)
        resample.resample_filter = self.resample_filter
        if self.fused:
            wide = F.conv2d(x, self.weight, padding=self.padding[0] + resample.pad)
            return resample(wide, pad=0) + self.bias[:, None, None]
        return super().forward(resample(x))


class Block(nn.Module):
    def __init__(self, net, inputs, outputs, direction=None, attention=False):
        super().__init__()
        song, self.song, self.scale = net.song, net.song, math.sqrt(0.5) if net.song else 1.0
        self.heads = (1 if song else outputs // 64) if attention else 0
        self.norm0 = group_norm(inputs, net.eps)
        self.conv0 = Conv(inputs, outputs, 3, direction, net.taps)
        self.affine = nn.Linear(net.width, outputs if song else 2 * outputs)
        self.norm1 = group_norm(outputs, net.eps)
        self.conv1 = Conv(outputs, outputs, 3)
        self.skip = None
        if inputs != outputs or (song and direction):
            self.skip = Conv(inputs, outputs, 1, direction, net.taps)
        elif direction:
            self.skip = Resample(direction, net.taps)
        if self.heads:
            self.norm2 = group_norm(outputs, net.eps)
            self.qkv = Conv(outputs, 3 * outputs, 1)
            self.proj = Conv(outputs, outputs, 1)

    def forward(self, x, e):
        h = self.conv0(F.silu(self.norm0(x)))
        p = self.affine(e)[:, :, None, None]
        if self.song:
            h = F.silu(self.norm1(h + p))
        else:
            scale, shift = p.chunk(2, dim=1)
            h = F.silu(self.norm1(h) * (1 + scale) + shift)
        y = (self.conv1(h) + (x if self.skip is None else self.skip(x))) * self.scale
        return (self.attend(y) + y) * self.scale if self.heads else y

    def attend(self, y):
        n, c, height, width = y.shape
        # Channel 3·(head·d + component) + j is query, key or value: j runs fastest.
        q, k, v = self.qkv(self.norm2(y)).reshape(n, self.heads, c // self.heads, 3, height * width).unbind(3)
        weights = torch.einsum("nhct,nhcu->nhtu", q / math.sqrt(c // self.heads), k).softmax(-1)
        return self.proj(torch.einsum("nhtu,nhcu->nhct", weights, v).reshape(y.shape))


class UNet(nn.Module):
    def __init__(self, config, outputs):
        super().__init__()
        self.song = song = config["model_type"] == "SongUNet"
        option = lambda name, of_song, of_adm: config.get(name, of_song if song else of_adm)
        base, mult = option("model_channels", 128, 192), option("channel_mult", [1, 2, 2, 2], [1, 2, 3, 4])
        blocks, attends = option("num_blocks", 4, 3), option("attn_resolutions", [16], [32, 16, 8])
        size, self.labels = config["img_resolution"], config.get("label_dim", 0)
        self.encoder, self.decoder = config.get("encoder_type", "standard"), config.get("decoder_type", "standard")
        self.eps, self.taps = (1e-6 if song else 1e-5), config.get("resample_filter", [1, 1]) if song else [1, 1]
        self.width = base * config.get("channel_mult_emb", 4)
        self.noise = base * (config.get("channel_mult_noise", 1) if song else 1)
        self.fourier = song and config.get("embedding_type", "positional") == "fourier"
        if self.fourier:
            self.map_noise = nn.Module()
            self.map_noise.register_buffer("freqs", 16 * torch.randn(self.noise // 2))
        if self.labels:
            self.map_label = nn.Linear(self.labels, self.noise if song else self.width, bias=song)
        if config.get("augment_dim", 0):
            self.map_augment = nn.Linear(config["augment_dim"], self.noise, bias=False)
        self.map_layer0, self.map_layer1 = nn.Linear(self.noise, self.width), nn.Linear(self.width, self.width)
        self.enc, self.dec = nn.ModuleDict(), nn.ModuleDict()
        current, stack = self._build_encoder(config["img_channels"], base, mult, blocks, attends, size)
        self._build_decoder(outputs, base, mult, blocks, attends, size, current, stack)

    def _build_encoder(self, channels, base, mult, blocks, attends, size):
        current, aux, stack = channels, channels, []
        for level, factor in enumerate(mult):
            at = f"{size >> level}x{size >> level}_"
            if level == 0:
                current = base if self.song else base * factor
                self.enc[at + "conv"] = Conv(channels, current, 3)
            else:
                self.enc[at + "down"] = Block(self, current, current, "down")
                if self.encoder == "skip":
                    self.enc[at + "aux_down"] = Resample("down", self.taps)
                    self.enc[at + "aux_skip"] = Conv(aux, current, 1)
                if self.encoder == "residual":
                    self.enc[at + "aux_residual"] = Conv(aux, current, 3, "down", self.taps, fused=True)
                    aux = current
            stack.append(current)
            for b in range(blocks):
                self.enc[at + f"block{b}"] = Block(self, current, base * factor, None, size >> level in attends)
                current = base * factor
                stack.append(current)
        return current, stack

    def _build_decoder(self, outputs, base, mult, blocks, attends, size, current, stack):
        for level in reversed(range(len(mult))):
            at, wide = f"{size >> level}x{size >> level}_", base * mult[level]
            if level == len(mult) - 1:
                self.dec[at + "in0"] = Block(self, current, current, None, True)
                self.dec[at + "in1"] = Block(self, current, current)
            else:
                self.dec[at + "up"] = Block(self, current, current, "up")
            for b in range(blocks + 1):
                attention = size >> level in attends and (not self.song or b == blocks)
                self.dec[at + f"block{b}"] = Block(self, current + stack.pop(), wide, None, attention)
                current = wide
            if self.song and (self.decoder == "skip" or level == 0):
                if self.decoder == "skip" and level < len(mult) - 1:
                    self.dec[at + "aux_up"] = Resample("up", self.taps)
                self.dec[at + "aux_norm"] = group_norm(current, self.eps)
                self.dec[at + "aux_conv"] = Conv(current, outputs, 3)
        if not self.song:
            self.out_norm, self.out_conv = group_norm(current, self.eps), Conv(current, outputs, 3)

    def embed(self, noise, labels):
        half = self.noise // 2
        if self.fourier:
            frequencies = 2 * math.pi * self.map_noise.freqs
        else:
            index = torch.arange(half, dtype=torch.float32, device=noise.device)
            frequencies = (1 / 10000) ** (index / (half - 1 if self.song else half))
        theta = torch.outer(noise, frequencies)
        if self.labels and labels is None:
            labels = torch.zeros(len(noise), self.labels, device=noise.device)
        if self.song:
            v = torch.cat([theta.sin(), theta.cos()], dim=1)
            if self.labels:
                v = v + self.map_label(labels * math.sqrt(self.labels))
            return F.silu(self.map_layer1(F.silu(self.map_layer0(v))))
        v = torch.cat([theta.cos(), theta.sin()], dim=1)
        u = self.map_layer1(F.silu(self.map_layer0(v)))
        return F.silu(u + self.map_label(labels) if self.labels else u)

    def forward(self, x, noise, labels=None):
        e, aux, stack = self.embed(noise, labels), x, []
        for name, layer in self.enc.items():
            if name.endswith("aux_down"):
                aux = layer(aux)
            elif name.endswith("aux_skip"):
                x = stack[-1] = x + layer(aux)
            elif name.endswith("aux_residual"):
                x = stack[-1] = aux = (x + layer(aux)) / math.sqrt(2)
            else:
                x = layer(x, e) if isinstance(layer, Block) else layer(x)
                stack.append(x)
        out = None
        for name, layer in self.dec.items():
            if name.endswith("aux_up"):
                out = layer(out)
            elif name.endswith("aux_norm"):
                normed = F.silu(layer(x))
            elif name.endswith("aux_conv"):
                out = layer(normed) if out is None else out + layer(normed)
            else:
                x = layer(torch.cat([x, stack.pop()], dim=1) if "_block" in name else x, e)
        return out if self.song else self.out_conv(F.silu(self.out_norm(x)))

    def initialise(self):
        """As the Song networks are trained from scratch: uniform by fan, branches that end in a sum near zero."""
        for name, layer in self.named_modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                area = layer.weight[0, 0].numel() if layer.weight.dim() == 4 else 1
                bound = math.sqrt(6 / ((layer.weight.shape[0] + layer.weight.shape[1]) * area))
                small = name.endswith(("conv1", "proj", "aux_conv"))
                bound *= 1e-5 if small else math.sqrt(0.2) if name.endswith("qkv") else 1
                nn.init.uniform_(layer.weight, -bound, bound)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


class Precond(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.cls, self.options = config["cls"], config
        default = "SongUNet" if self.cls in ("VPPrecond", "VEPrecond") else "DhariwalUNet"
        config = {"model_type": default, **config}
        self.model = UNet(config, config["img_channels"] * (2 if self.cls == "iDDPMPrecond" else 1))
        if self.cls == "iDDPMPrecond":
            steps, c1, c2 = config.get("M", 1000), config.get("C_1", 0.001), config.get("C_2", 0.008)
            bar = lambda j: math.sin(0.5 * math.pi * j / (steps * (c2 + 1))) ** 2
            u = torch.zeros(steps + 1)
            for j in range(steps, 0, -1):
                u[j - 1] = ((u[j] ** 2 + 1) / max(bar(j - 1) / bar(j), c1) - 1).sqrt()
            self.register_buffer("u", u)

    def factors(self, sigma):
        get, one = self.options.get, torch.ones_like(sigma)
        if self.cls == "EDMPrecond":
            s = get("sigma_data", 0.5)
            q = sigma ** 2 + s ** 2
            return s ** 2 / q, sigma * s / q.sqrt(), 1 / q.sqrt(), sigma.log() / 4
        if self.cls == "VEPrecond":
            return one, sigma, one, (0.5 * sigma).log()
        if self.cls == "VPPrecond":
            d, low = get("beta_d", 19.9), get("beta_min", 0.1)
            t = ((low ** 2 + 2 * d * (1 + sigma ** 2).log()).sqrt() - low) / d
            return one, -sigma, 1 / (sigma ** 2 + 1).sqrt(), (get("M", 1000) - 1) * t
        nearest = (self.u[None] - sigma.detach().reshape(-1, 1)).abs().argmin(1).reshape(sigma.shape)
        return one, -sigma, 1 / (sigma ** 2 + 1).sqrt(), get("M", 1000) - 1 - nearest.float()

    def forward(self, x, sigma, labels=None):
        skip, out, scale, noise = self.factors(sigma.reshape(-1, 1, 1, 1))
        return skip * x + out * self.model(scale * x, noise.flatten(), labels)[:, :x.shape[1]]


def build(config):
    return Precond(config)
