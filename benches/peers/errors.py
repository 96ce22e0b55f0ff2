"""How far 16-bit products are from exact ones: each network by this program and by PyTorch.

    python benches/peers/errors.py [unet transformer text2 edm] [--folder target/peers] [--binary target/release/dyweight]

`unet` is that of Stable Diffusion 1.5 on 32x32 latents, judged by PyTorch in f64; `transformer` and `text2` are the files of `flux.py make`, judged by
PyTorch in f32; `edm` is this program's `random:edm-cifar10`, judged by its own f32. Weights are random. Prints one JSON line for each output: the root
mean square of the difference from the judge, relative to the output's own. Needs torch, diffusers, transformers and safetensors.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("parts", nargs="*", default=["edm", "unet", "transformer", "text2"])
parser.add_argument("--folder", type=pathlib.Path, default=HERE.parent.parent / "target/peers", help="where models are, or are made (7 GB)")
parser.add_argument("--binary", default=str(HERE.parent.parent / "target/release/dyweight"))
args = parser.parse_args()
torch.manual_seed(0)
TEXTS, SIDE = 64, 8


def ours(part, model, given, precision):
    with tempfile.TemporaryDirectory() as folder:
        given_file, out = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
        save_file(given, given_file)
        command = [args.binary, "probe", "--model", str(model), "--input", given_file, "--out", out, "--precision", precision]
        subprocess.run([*command, *(["--part", part] if part else [])], check=True, capture_output=True)
        return load_file(out)


def unet(given, dtype):
    from diffusers import UNet2DConditionModel

    network = UNet2DConditionModel.from_pretrained(args.folder / "sd15/unet", torch_dtype=dtype).eval().requires_grad_(False)
    x = given["x"].to(dtype, copy=True).requires_grad_(True)
    eps = network(x, given["t"].to(dtype), given["context"].to(dtype)).sample
    eps.backward(given["cotangent"].to(dtype))
    return {"eps": eps.detach(), "grad_x": x.grad}


def flux(given, dtype):
    from diffusers import FluxTransformer2DModel

    network = FluxTransformer2DModel.from_pretrained(args.folder / "flux/transformer", torch_dtype=dtype).eval().requires_grad_(False)
    x = given["x"].to(dtype, copy=True).requires_grad_(True)
    velocity = network(
        hidden_states=x, timestep=given["t"].to(dtype), guidance=given["guidance"], encoder_hidden_states=given["context"].to(dtype),
        pooled_projections=given["pooled"].to(dtype), img_ids=given["img_ids"], txt_ids=given["txt_ids"], return_dict=False)[0]
    velocity.backward(given["cotangent"].to(dtype))
    return {"velocity": velocity.detach(), "grad_x": x.grad}


def t5(given, dtype):
    from transformers import T5EncoderModel

    network = T5EncoderModel.from_pretrained(args.folder / "flux/text_encoder_2", dtype=dtype).eval()
    with torch.no_grad():
        return {"last_hidden_state": network(given["ids"])[0]}


def made(part):
    """The folder of a part's model."""
    if part == "unet":
        folder = args.folder / "sd15/unet"
        if not folder.exists():
            from diffusers import UNet2DConditionModel

            UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8).save_pretrained(folder)
        return folder
    folder = args.folder / "flux"
    if not (folder / "ids.safetensors").exists():
        subprocess.run([sys.executable, str(HERE / "flux.py"), "make", str(folder)], check=True)
    return folder if part == "transformer" else folder / "text_encoder_2"


# A thousand times guidance is a bf16 number: diffusers would round it otherwise, and ask the network for something else. So is the time.
positions = torch.tensor([[0.0, r, s] for r in range(SIDE) for s in range(SIDE)])
tokens, latents = torch.randn(1, SIDE * SIDE, 64), torch.randn(1, 4, 32, 32)
inputs = {
    "edm": {"x": torch.randn(2, 3, 32, 32), "sigma": torch.tensor([0.5, 2.0]), "cotangent": torch.randn(2, 3, 32, 32)},
    "unet": {"x": latents, "t": torch.tensor([500.0]), "context": torch.randn(1, 77, 768), "cotangent": torch.randn_like(latents)},
    "transformer": {"x": tokens, "t": torch.tensor([0.5]), "guidance": torch.tensor([4.096]), "context": torch.randn(1, TEXTS, 4096),
                    "pooled": torch.randn(1, 768), "img_ids": positions, "txt_ids": torch.zeros(TEXTS, 3), "cotangent": torch.randn_like(tokens)},
    "text2": {"ids": torch.randint(3, 32000, (1, 512))},
}
for part in args.parts:
    given = inputs[part]
    if part == "edm":
        exact = {name: value.double() for name, value in ours(None, "random:edm-cifar10", given, "f32").items()}
        found = {"ours_bf16": ours(None, "random:edm-cifar10", given, "bf16")}
    else:
        run, model = {"unet": unet, "transformer": flux, "text2": t5}[part], made(part)
        judge = torch.float64 if part == "unet" else torch.float32
        exact = {name: value.double() for name, value in run(given, judge).items()}
        found = {"torch_bf16": run(given, torch.bfloat16), "ours_f32": ours(part, model, given, "f32"), "ours_bf16": ours(part, model, given, "bf16")}
        if judge == torch.float64:
            found["torch_f32"] = run(given, torch.float32)
    for name, value in exact.items():
        error = {side: float(f"{((all[name].double() - value).norm() / value.norm()).item():.2g}") for side, all in found.items()}
        print(json.dumps({"part": part, "output": name, **error}), flush=True)
