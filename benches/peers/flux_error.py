"""How far bf16 is from f32: FLUX's blocks with their gradient and T5's layers, by this program and by PyTorch, on the files of `flux.py make`.

    python benches/peers/flux_error.py DIR [--binary target/release/dyweight]

Prints one JSON line for each output: the root mean square of the difference from PyTorch in f32, relative to the output's own. Needs torch,
diffusers, transformers and safetensors.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import torch
from safetensors.torch import load_file, save_file

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--binary", default="target/release/dyweight")
args = parser.parse_args()
torch.manual_seed(0)
TEXTS, SIDE = 64, 8


def ours(part, model, given, precision):
    with tempfile.TemporaryDirectory() as folder:
        given_file, out = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
        save_file(given, given_file)
        command = [args.binary, "probe", "--model", model, "--part", part, "--input", given_file, "--out", out, "--precision", precision]
        subprocess.run(command, check=True, capture_output=True)
        return load_file(out)


def flux(given, dtype):
    from diffusers import FluxTransformer2DModel

    network = FluxTransformer2DModel.from_pretrained(args.folder / "transformer", torch_dtype=dtype).eval().requires_grad_(False)
    x = given["x"].to(dtype, copy=True).requires_grad_(True)
    velocity = network(
        hidden_states=x, timestep=given["t"].to(dtype), guidance=given["guidance"], encoder_hidden_states=given["context"].to(dtype),
        pooled_projections=given["pooled"].to(dtype), img_ids=given["img_ids"], txt_ids=given["txt_ids"], return_dict=False)[0]
    velocity.backward(given["cotangent"].to(dtype))
    return {"velocity": velocity.detach(), "grad_x": x.grad}


def t5(given, dtype):
    from transformers import T5EncoderModel

    network = T5EncoderModel.from_pretrained(args.folder / "text_encoder_2", dtype=dtype).eval()
    with torch.no_grad():
        return {"last_hidden_state": network(given["ids"])[0]}


# A thousand times guidance is a bf16 number: diffusers would round it otherwise, and ask the network for something else.
positions = torch.tensor([[0.0, r, s] for r in range(SIDE) for s in range(SIDE)])
tokens = torch.randn(1, SIDE * SIDE, 64)
inputs = {
    "transformer": {"x": tokens, "t": torch.tensor([0.5]), "guidance": torch.tensor([4.096]), "context": torch.randn(1, TEXTS, 4096),
                    "pooled": torch.randn(1, 768), "img_ids": positions, "txt_ids": torch.zeros(TEXTS, 3), "cotangent": torch.randn_like(tokens)},
    "text2": {"ids": torch.randint(3, 32000, (1, 512))},
}
for part, run, model in (("transformer", flux, args.folder), ("text2", t5, args.folder / "text_encoder_2")):
    given = inputs[part]
    exact = {name: value.double() for name, value in run(given, torch.float32).items()}
    found = {"torch_bf16": run(given, torch.bfloat16), "ours_f32": ours(part, str(model), given, "f32"), "ours_bf16": ours(part, str(model), given, "bf16")}
    for name, value in exact.items():
        error = {side: float(f"{((all[name].double() - value).norm() / value.norm()).item():.2g}") for side, all in found.items()}
        print(json.dumps({"part": part, "output": name, **error}), flush=True)
