"""FLUX in its real width with few blocks, and layers of T5 XXL: makes the files, and times PyTorch eager on them.

    python benches/peers/flux.py make DIR [--doubles 2 --singles 4 --layers 2]     random weights in bf16, as diffusers writes them
    python benches/peers/flux.py forward|gradient|text DIR --threads 2 --runs 3 [--precision bf16]

The peer of `dyweight bench --model DIR --shape 16,64,64` (1024 image tokens and 512 of text) and of `dyweight probe --part text2`
(512 tokens). Prints one JSON line (`measured.py`). Needs torch, diffusers, transformers and safetensors.
"""

import argparse
import pathlib

import torch
from measured import report

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["make", "forward", "gradient", "text"])
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--doubles", type=int, default=2)
parser.add_argument("--singles", type=int, default=4)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(0)
dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.precision]


def make():
    from diffusers import FluxTransformer2DModel
    from safetensors.torch import save_file
    from transformers import T5Config, T5EncoderModel

    def filled(network):
        """Random tensors for a network that has none."""
        def tensor(name, shape):
            if len(shape) > 1:
                return torch.randn(shape, dtype=torch.bfloat16) * shape[1] ** -0.5
            return torch.randn(shape, dtype=torch.bfloat16) * 0.1 + ("norm" in name and name.endswith("weight"))
        return {name: tensor(name, parameter.shape) for name, parameter in network.named_parameters()}

    with torch.device("meta"):
        flux = FluxTransformer2DModel(num_layers=args.doubles, num_single_layers=args.singles, guidance_embeds=True)
        t5 = T5EncoderModel(T5Config(
            vocab_size=32128, d_model=4096, d_kv=64, d_ff=10240, num_layers=args.layers, num_heads=64, feed_forward_proj="gated-gelu",
            is_encoder_decoder=False, use_cache=False))
    transformer, text = args.folder / "transformer", args.folder / "text_encoder_2"
    transformer.mkdir(parents=True, exist_ok=True)
    text.mkdir(parents=True, exist_ok=True)
    flux.save_config(transformer)
    save_file(filled(flux), transformer / "diffusion_pytorch_model.safetensors")
    t5.config.save_pretrained(text)
    save_file(filled(t5), text / "model.safetensors", metadata={"format": "pt"})
    save_file({"ids": torch.randint(3, 32000, (1, 512))}, args.folder / "ids.safetensors")


def transformer():
    from diffusers import FluxTransformer2DModel

    network = FluxTransformer2DModel.from_pretrained(args.folder / "transformer", torch_dtype=dtype).eval().requires_grad_(False)
    x = torch.randn(1, 1024, 64, dtype=dtype)
    image = torch.tensor([[0.0, r, s] for r in range(32) for s in range(32)])
    given = dict(timestep=torch.tensor([0.5]).to(dtype), guidance=torch.tensor([3.5]), encoder_hidden_states=torch.zeros(1, 512, 4096, dtype=dtype),
                 pooled_projections=torch.zeros(1, 768, dtype=dtype), img_ids=image, txt_ids=torch.zeros(512, 3), return_dict=False)

    def forward():
        with torch.no_grad():
            return network(hidden_states=x, **given)[0]

    def gradient():
        latents = x.clone().requires_grad_(True)
        out = network(hidden_states=latents, **given)[0]
        out.backward(out.detach())
        return latents.grad

    return forward if args.what == "forward" else gradient


def text():
    from transformers import T5EncoderModel

    network = T5EncoderModel.from_pretrained(args.folder / "text_encoder_2", dtype=dtype).eval().requires_grad_(False)
    ids = torch.randint(3, 32000, (1, 512))

    def once():
        with torch.no_grad():
            return network(ids)[0]

    return once


if args.what == "make":
    make()
else:
    once = text() if args.what == "text" else transformer()
    report(once, args.runs)
