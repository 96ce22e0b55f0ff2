"""Tiny random pipelines: real pipeline code, networks of a few thousand weights, tokenisers of single letters."""

import json
import os

import diffusers
import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast, T5Config, T5EncoderModel

TABLE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: Channels of the first layers. `families.py --larger` takes twice as many.
WIDTH = int(os.environ.get("TINY_WIDTH", "8"))


def clip_tokenizer(folder):
    """Letters as words."""
    tokens = [*LETTERS, *(f"{c}</w>" for c in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)


def t5_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokens = {t: i for i, t in enumerate(["<pad>", "</s>", "<unk>", *LETTERS])}
    tokenizer = Tokenizer(models.WordLevel(tokens, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=16
    )


def clip_encoder(width=32):
    config = CLIPTextConfig(
        vocab_size=54, hidden_size=width, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=16, bos_token_id=52, eos_token_id=53, projection_dim=width,
    )  # fmt: skip
    return CLIPTextModel(config)


def t5_config(kind=T5Config):
    return kind(vocab_size=29, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu")


def vae(channels=4, **options):
    return diffusers.AutoencoderKL(
        block_out_channels=(WIDTH, 2 * WIDTH), in_channels=3, out_channels=3, latent_channels=channels, norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **options,
    )  # fmt: skip


def unet(cross=32, channels=4, **options):
    return diffusers.UNet2DConditionModel(
        block_out_channels=(WIDTH, 2 * WIDTH), layers_per_block=1, sample_size=8, in_channels=channels, out_channels=4, norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=cross, attention_head_dim=2, **options,
    )  # fmt: skip


def stable_diffusion(
    folder, prediction_type="epsilon", kind=diffusers.StableDiffusionPipeline, network=None, **more
):  # fmt: skip
    torch.manual_seed(0)
    pipe = kind(
        unet=network or unet(), vae=vae(), text_encoder=clip_encoder(), tokenizer=clip_tokenizer(folder),
        scheduler=diffusers.EulerDiscreteScheduler(prediction_type=prediction_type, steps_offset=1, **TABLE),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False, **more,
    )  # fmt: skip
    return quiet(pipe)


def sdxl(folder):
    torch.manual_seed(0)
    from transformers import CLIPTextModelWithProjection

    tokenizer = clip_tokenizer(folder)
    network = unet(
        cross=64,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 32,
    )
    pipe = diffusers.StableDiffusionXLPipeline(
        unet=network, vae=vae(), text_encoder=clip_encoder(), tokenizer=tokenizer, tokenizer_2=tokenizer,
        text_encoder_2=CLIPTextModelWithProjection(clip_encoder().config),
        scheduler=diffusers.EulerDiscreteScheduler(steps_offset=1, **TABLE), add_watermarker=False,
    )  # fmt: skip
    return quiet(pipe)


def transformer():
    return diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=True, axes_dims_rope=(4, 6, 6),
    )  # fmt: skip


def flux(folder, kind=diffusers.FluxPipeline, network=None):
    torch.manual_seed(0)
    pipe = kind(
        transformer=network or transformer(), vae=vae(use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.1),
        text_encoder=clip_encoder(), tokenizer=clip_tokenizer(folder), text_encoder_2=T5EncoderModel(t5_config()),
        tokenizer_2=t5_tokenizer(), scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
    )  # fmt: skip
    return quiet(pipe)


def quiet(pipe):
    """Without progress bars, and without the dropout that networks made here would have."""
    pipe.set_progress_bar_config(disable=True)
    for module in pipe.components.values():
        if isinstance(module, torch.nn.Module):
            module.eval()
    return pipe
