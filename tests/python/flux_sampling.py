"""`sample --solver euler` against diffusers' FluxPipeline with the same weights, prompts and noise: latents, and images before rounding.

usage: flux_sampling.py BINARY      needs torch, diffusers, transformers, safetensors

Two sizes, with guidance as an input and without, heads and axes of two kinds; tokens of T5 against tokenizers.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

import tiny_flux

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))
from dyweight.diffusers import DyWeightScheduler  # noqa: E402

PROMPT, SEEDS, STEPS = "a photo of the cat,  2 dogs' tails!", [0, 3], 5
binary = sys.argv[1]
failed = False


def difference(found, expected):
    return float((found.double() - expected.double()).abs().max() / expected.abs().max())


def run(*arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


for guidance, heads, head, axes in ((3.5, 2, 16, (4, 6, 6)), (None, 3, 24, (8, 8, 8))):
    folder = pathlib.Path(tempfile.mkdtemp())
    pipeline = tiny_flux.build(folder / "model", guidance is not None, heads, head, axes)
    vae = pipeline.vae
    for height, width in ((32, 32), (48, 80)):
        expected, images = [], []
        with torch.no_grad():
            for seed in SEEDS:
                latents = pipeline(
                    PROMPT, height=height, width=width, num_inference_steps=STEPS, guidance_scale=guidance or 0.0,
                    max_sequence_length=tiny_flux.LENGTH, generator=torch.Generator().manual_seed(seed), output_type="latent").images
                latents = pipeline._unpack_latents(latents, height, width, pipeline.vae_scale_factor)
                expected.append(latents)
                images.append(vae.decode(latents / vae.config.scaling_factor + vae.config.shift_factor).sample)
        expected, images = torch.cat(expected), torch.cat(images)
        out = folder / f"{height}x{width}"
        given = ["--guidance", guidance] if guidance else []
        run("sample", "--model", folder / "model", "--prompt", PROMPT, "--solver", "euler", "--steps", STEPS, "--rng", "torch",
            "--seeds", ",".join(map(str, SEEDS)), "--height", height, "--width", width, "--text-tokens", tiny_flux.LENGTH, "--outdir", out,
            "--latent-out", out.with_suffix(".safetensors"), "--conv", "direct", *given)
        found = load_file(out.with_suffix(".safetensors"))["latents"].float()
        of_latents = difference(found, expected)
        inside = (found / vae.config.scaling_factor + vae.config.shift_factor).contiguous()
        save_file({"latents": inside}, folder / "in.safetensors")
        run("probe", "--model", folder / "model", "--part", "vae", "--conv", "direct", "--input", folder / "in.safetensors", "--out",
            folder / "image.safetensors")
        of_images = difference(load_file(folder / "image.safetensors")["image"], images)
        print(f"guidance {guidance}, {heads} heads of {head}, {height}x{width}: latents {of_latents:.1e}, images {of_images:.1e}")
        failed |= of_latents > 1e-4 or of_images > 1e-4

    # Released coefficients: the scheduler for diffusers keeps the grid they were learned on, that of 512 pixels; the program is told to.
    pipeline.scheduler = DyWeightScheduler.from_preset("flux-nfe5", pipeline.scheduler.config)
    with torch.no_grad():
        latents = pipeline(PROMPT, height=32, width=48, num_inference_steps=5, guidance_scale=guidance or 0.0,
                           max_sequence_length=tiny_flux.LENGTH, generator=torch.Generator().manual_seed(7), output_type="latent").images
    expected = pipeline._unpack_latents(latents, 32, 48, pipeline.vae_scale_factor)
    run("sample", "--model", folder / "model", "--prompt", PROMPT, "--weights", "preset:flux-nfe5", "--schedule", "flow", "--image-size", 512,
        "--rng", "torch", "--seeds", 7, "--height", 32, "--width", 48, "--text-tokens", tiny_flux.LENGTH, "--outdir", folder / "preset",
        "--latent-out", folder / "preset.safetensors", *given)
    of_latents = difference(load_file(folder / "preset.safetensors")["latents"].float(), expected)
    print(f"preset:flux-nfe5, guidance {guidance}: latents {of_latents:.1e}")
    failed |= of_latents > 1e-4

sys.exit(failed)
