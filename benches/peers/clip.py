"""Times PyTorch eager on CLIP's image towers in their real size, with random weights: normalised 224x224 pixels to features.

The peer of `dyweight bench --clip random:NAME`, f32, weights frozen; transformers' vision tower, with its own choice of attention.

    python benches/peers/clip.py --model vit-l-14 --what forward|gradient --batch 8 --threads 2 --runs 3

Prints one JSON line (`measured.py`). Needs torch and transformers.
"""

import argparse

import torch
from measured import report
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

MODELS = {
    "vit-b-32": (768, 3072, 12, 12, 32, 512, "quick_gelu"),
    "vit-b-16": (768, 3072, 12, 12, 16, 512, "quick_gelu"),
    "vit-l-14": (1024, 4096, 24, 16, 14, 768, "quick_gelu"),
    "vit-h-14": (1280, 5120, 32, 16, 14, 1024, "gelu"),
}

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=sorted(MODELS), default="vit-b-32")
parser.add_argument("--what", choices=["forward", "gradient"], default="forward")
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(0)
width, inside, layers, heads, patch, features, act = MODELS[args.model]
config = CLIPVisionConfig(
    hidden_size=width, intermediate_size=inside, num_hidden_layers=layers, num_attention_heads=heads, patch_size=patch,
    image_size=224, projection_dim=features, hidden_act=act)
dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
network = CLIPVisionModelWithProjection(config).to(dtype).eval().requires_grad_(False)
pixels = torch.randn(args.batch, 3, 224, 224, dtype=dtype)


def once():
    if args.what == "forward":
        with torch.no_grad():
            return network(pixel_values=pixels).image_embeds
    x = pixels.clone().requires_grad_(True)
    out = network(pixel_values=x).image_embeds
    out.backward(out.detach())
    return x.grad


report(once, args.runs, args.batch)
