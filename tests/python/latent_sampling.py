"""`sample --solver euler` against a diffusers pipeline with the same weights, prompts and noise: guidance, latents, images.

usage: latent_sampling.py BINARY      needs torch, diffusers, transformers, safetensors, pillow
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from PIL import Image
from safetensors.torch import load_file

import tiny_pipeline

PROMPT, NEGATIVE, GUIDANCE, SEEDS = "a photo of the cat, 2 dogs' tails!", "dog", 7.5, [0, 3]
STEPS = [999, 700, 500, 300, 100, 20]

binary = sys.argv[1]
folder = pathlib.Path(tempfile.mkdtemp())
pipeline = tiny_pipeline.build(folder / "model")
scheduler = pipeline.scheduler
table = ((1 - scheduler.alphas_cumprod.double()) / scheduler.alphas_cumprod.double()).sqrt()
# From the largest level on the pipeline's own start is sigma times noise.
latents = torch.cat([torch.randn((1, 4, 8, 8), generator=torch.Generator().manual_seed(s)) for s in SEEDS])
with torch.no_grad():
    expected, images = [], []
    for i in range(len(SEEDS)):
        out = pipeline(PROMPT, negative_prompt=NEGATIVE, guidance_scale=GUIDANCE, timesteps=STEPS, height=16, width=16,
                       latents=latents[i : i + 1], output_type="latent").images
        expected.append(out)
        decoded = pipeline.vae.decode(out / pipeline.vae.config.scaling_factor).sample
        images.append(numpy.floor(numpy.clip(decoded[0].permute(1, 2, 0).numpy() * 127.5 + 128, 0, 255)))
expected = torch.cat(expected)

sigmas = ",".join(repr(float(table[t])) for t in STEPS) + ",0"
run = [binary, "sample", "--model", folder / "model", "--prompt", PROMPT, "--negative", NEGATIVE, "--guidance", GUIDANCE, "--solver",
       "euler", "--sigmas", sigmas, "--rng", "torch", "--seeds", ",".join(map(str, SEEDS)), "--height", 16, "--width", 16,
       "--outdir", folder / "out", "--latent-out", folder / "latents.safetensors", "--conv", "direct"]
subprocess.run(list(map(str, run)), check=True, capture_output=True)

found = load_file(folder / "latents.safetensors")["latents"].float()
difference = float((found - expected).abs().max() / expected.abs().max())
print(f"latents after {len(STEPS)} Euler steps with guidance {GUIDANCE}: relative difference {difference:.1e}")
failed = difference > 1e-4
for seed, image in zip(SEEDS, images):
    picture = Image.open(folder / "out" / "000000" / f"{seed:06}.png")
    worst = int(numpy.abs(numpy.asarray(picture).astype(int) - image).max())
    print(f"image of seed {seed}: pixels differ by at most {worst}; text {dict(picture.text)}")
    failed |= worst > 1 or picture.text.get("prompt") != PROMPT or picture.text.get("seed") != str(seed)
ids = pipeline.tokenizer(PROMPT, padding="max_length", max_length=77).input_ids
print("tokens", ids[:24])
sys.exit(failed)
