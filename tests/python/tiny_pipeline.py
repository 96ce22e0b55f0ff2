"""A Stable Diffusion pipeline of a few thousand random weights, written to a folder as diffusers writes it.

usage: tiny_pipeline.py DIR
"""

import json
import pathlib
import sys

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

START, END = "<|startoftext|>", "<|endoftext|>"
MERGES = ["c a", "ca t</w>", "d o", "do g</w>", "p h", "o t", "ph ot", "phot o</w>", "o f</w>", "t h", "th e</w>", "i n</w>"]


def byte_symbols():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in own] + [chr(256 + i) for i in range(256 - len(own))]


def write_tokenizer(folder):
    folder.mkdir(parents=True, exist_ok=True)
    symbols = byte_symbols()
    words = symbols + [s + "</w>" for s in symbols] + [m.replace(" ", "") for m in MERGES] + [START, END]
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n")
    config = {"tokenizer_class": "CLIPTokenizer", "bos_token": START, "eos_token": END, "pad_token": END, "unk_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 77}, indent=1))
    return len(words)


def build(folder):
    """Writes the pipeline and returns it."""
    folder = pathlib.Path(folder)
    vocabulary = write_tokenizer(folder / "tokenizer")
    torch.manual_seed(1)
    unet = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16, attention_head_dim=2)
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, sample_size=16)
    text = CLIPTextModel(CLIPTextConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        bos_token_id=vocabulary - 2, eos_token_id=vocabulary - 1, pad_token_id=vocabulary - 1))
    # Fresh normalisations are ones and zeros, which would hide an exchange of their weights.
    for network in (unet, vae, text):
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.data += 0.1 * torch.randn_like(parameter)
    scheduler = EulerDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", num_train_timesteps=1000,
        timestep_spacing="linspace", steps_offset=1)
    pipeline = StableDiffusionPipeline(
        vae=vae, text_encoder=text, tokenizer=CLIPTokenizer.from_pretrained(folder / "tokenizer"), unet=unet,
        scheduler=scheduler, safety_checker=None, feature_extractor=None, requires_safety_checker=False)
    pipeline.set_progress_bar_config(disable=True)
    kept = {name: (folder / "tokenizer" / name).read_text() for name in ("vocab.json", "merges.txt", "tokenizer_config.json")}
    pipeline.save_pretrained(folder)
    # Tokenizers are written back in whatever way their version prefers: released folders have these files.
    for name, content in kept.items():
        (folder / "tokenizer" / name).write_text(content)
    return pipeline


if __name__ == "__main__":
    build(sys.argv[1])
