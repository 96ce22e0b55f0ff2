"""Makes crates/dyweight-models/tests/data/latent: a tiny Stable Diffusion folder, and what diffusers says of it.

usage: make_latent_fixtures.py      needs torch, diffusers, transformers, safetensors
"""

import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import tiny_pipeline  # noqa: E402

TEXTS = ["", "a photo of the cat", "Dog's  in THE ca\u0301t! 42", "the <|endoftext|> in"]

out = ROOT / "crates" / "dyweight-models" / "tests" / "data" / "latent"
shutil.rmtree(out, ignore_errors=True)
pipeline = tiny_pipeline.build(out)
(out / "tokenizer" / "tokenizer.json").unlink(missing_ok=True)
torch.manual_seed(2)


def save(name, **tensors):
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, out / f"{name}.io.safetensors")


x = torch.randn(2, 4, 8, 6, requires_grad=True)
t = torch.tensor([17.25, 903.5], requires_grad=True)
context = torch.randn(2, 5, 16)
eps = pipeline.unet(x, t, context).sample
cotangent = torch.randn_like(eps)
gx, gt = torch.autograd.grad((eps * cotangent).sum(), [x, t])
save("unet", x=x, t=t, context=context, cotangent=cotangent, eps=eps, grad_x=gx, grad_t=gt)

z = torch.randn(2, 4, 6, 4, requires_grad=True)
image = pipeline.vae.decode(z).sample
cotangent = torch.randn_like(image)
(gz,) = torch.autograd.grad((image * cotangent).sum(), [z])
mean = pipeline.vae.encode(image).latent_dist.mean
save("vae", latents=z, image=image, cotangent=cotangent, grad_latents=gz, encoded_mean=mean)

ids = pipeline.tokenizer(TEXTS, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
encoded = pipeline.text_encoder(ids)
save("text", ids=ids, last_hidden_state=encoded.last_hidden_state, pooled=encoded.pooler_output)
for path in out.rglob("*"):
    path.chmod(0o755 if path.is_dir() else 0o644)
