"""Times PyTorch eager, or OpenVINO, on the U-Net and decoder of Stable Diffusion 1.5 in their real size, with random weights.

The peer of `dyweight bench --model random:sd15`: 4x64x64 latents, 77 tokens of width 768, weights frozen.

    python benches/peers/sd15.py --what forward|gradient|decode --batch 1 --threads 2 --runs 3 [--precision bf16|openvino|openvino-bf16]

Prints one JSON line (`measured.py`); the memory of OpenVINO is that of what made its model, too. Needs torch, diffusers and openvino.
"""

import argparse

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from measured import report

parser = argparse.ArgumentParser()
parser.add_argument("--what", choices=["forward", "gradient", "decode"], default="forward")
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--precision", choices=["f32", "bf16", "openvino", "openvino-bf16"], default="f32")
args = parser.parse_args()
if args.what == "gradient" and args.precision.startswith("openvino"):
    parser.error("OpenVINO has no gradients")
torch.set_num_threads(args.threads)
torch.manual_seed(0)
dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
x = torch.randn(args.batch, 4, 64, 64, dtype=dtype)
if args.what == "decode":
    network = AutoencoderKL(
        block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4, down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4)
else:
    network = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
network = network.to(dtype).eval().requires_grad_(False)
context = torch.randn(args.batch, 77, 768, dtype=dtype)
given = (x,) if args.what == "decode" else (x, torch.tensor(500.5), context)


class Plain(torch.nn.Module):
    """Tensors in, a tensor out, as a converter wants it."""

    def __init__(self):
        super().__init__()
        self.network = network

    def forward(self, *given):
        return self.network.decode(*given).sample if args.what == "decode" else self.network(*given).sample


if args.precision.startswith("openvino"):
    import openvino

    precision = {"openvino": "f32", "openvino-bf16": "bf16"}[args.precision]
    settings = {"INFERENCE_NUM_THREADS": args.threads, "INFERENCE_PRECISION_HINT": precision}
    converted = openvino.convert_model(Plain(), example_input=given)
    compiled = openvino.compile_model(converted, "CPU", settings)


def once():
    if args.precision.startswith("openvino"):
        return compiled([part.numpy() for part in given])
    if args.what == "decode":
        with torch.no_grad():
            return network.decode(x).sample
    if args.what == "forward":
        with torch.no_grad():
            return network(x, 500.5, context).sample
    latents = x.clone().requires_grad_(True)
    out = network(latents, 500.5, context).sample
    out.backward(out.detach())
    return latents.grad


report(once, args.runs, args.batch, counted=not args.precision.startswith("openvino"))
