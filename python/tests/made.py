"""Pipelines of every kind, made here: real pipeline code, random networks of a few thousand weights, no hub.

`MADE[name]()` gives a pipeline and what it is called with.
"""

import tempfile
from pathlib import Path

import diffusers
import tiny
import torch
from tiny import WIDTH


def folder():
    return Path(tempfile.mkdtemp())


def image(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5))


def image_to_image():
    pipe = tiny.stable_diffusion(folder(), kind=diffusers.StableDiffusionImg2ImgPipeline)
    return pipe, {"prompt": "a", "image": image(1, 3, 16, 16), "strength": 0.6}


def _mask():
    mask = torch.zeros(1, 1, 16, 16)
    mask[..., 8:] = 1
    return mask


def inpaint():
    """Nine channels: the mask and the masked picture stand beside the state."""
    network = tiny.unet(channels=9)
    pipe = tiny.stable_diffusion(folder(), kind=diffusers.StableDiffusionInpaintPipeline, network=network)
    size = {"height": 16, "width": 16}
    return pipe, {"prompt": "a", "image": image(1, 3, 16, 16), "mask_image": _mask(), **size}


def instruct():
    """InstructPix2Pix: three network calls a step, a picture beside the state."""
    network = tiny.unet(channels=8)
    pipe = tiny.stable_diffusion(folder(), kind=diffusers.StableDiffusionInstructPix2PixPipeline, network=network)
    return pipe, {"prompt": "a", "image": image(1, 3, 16, 16), "image_guidance_scale": 1.5}


def controlnet():
    torch.manual_seed(0)
    network = tiny.unet()
    control = diffusers.ControlNetModel.from_unet(network, conditioning_embedding_out_channels=(4, 8))
    for part in control.controlnet_down_blocks:
        torch.nn.init.normal_(part.weight, std=0.1)
    pipe = tiny.stable_diffusion(
        folder(), kind=diffusers.StableDiffusionControlNetPipeline, network=network, controlnet=control
    )
    return pipe, {"prompt": "a", "image": image(1, 3, 16, 16)}


def pixels():
    """Three channels of a picture, no text."""
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, block_out_channels=(WIDTH, 2 * WIDTH), layers_per_block=1,
        norm_num_groups=4, down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    return tiny.quiet(diffusers.DDIMPipeline(unet, diffusers.DDIMScheduler(clip_sample=False))), {}


def classes():
    """DiT: a learned variance beside ε, classes in place of texts."""
    torch.manual_seed(0)
    network = diffusers.DiTTransformer2DModel(
        sample_size=8, num_layers=1, patch_size=2, attention_head_dim=WIDTH, num_attention_heads=2, in_channels=4,
        out_channels=8, attention_bias=True, activation_fn="gelu-approximate", num_embeds_ada_norm=1000,
        norm_type="ada_norm_zero", norm_elementwise_affine=False,
    )  # fmt: skip
    scheduler = diffusers.DDIMScheduler(clip_sample=False)
    return tiny.quiet(diffusers.DiTPipeline(network, tiny.vae(), scheduler)), {"class_labels": [3]}


FLUX_CALL = {"prompt": "a", "height": 16, "width": 16, "max_sequence_length": 16}


def flux():
    return tiny.flux(folder()), FLUX_CALL


def kontext():
    """Tokens of another picture behind those of the state."""
    call = {**FLUX_CALL, "image": image(1, 3, 16, 16), "max_area": 256, "_auto_resize": False}
    return tiny.flux(folder(), diffusers.FluxKontextPipeline), call


def modular():
    """FLUX as blocks."""
    whole = tiny.flux(folder())
    pipe = diffusers.modular_pipelines.FluxAutoBlocks().init_pipeline()
    pipe.update_components(**{k: v for k, v in whole.components.items() if v is not None and k in pipe.component_names})
    return pipe, FLUX_CALL


def sd3():
    torch.manual_seed(0)
    from transformers import CLIPTextModelWithProjection

    network = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=1, in_channels=4, num_layers=1, attention_head_dim=WIDTH, num_attention_heads=4,
        caption_projection_dim=4 * WIDTH, joint_attention_dim=32, pooled_projection_dim=64, out_channels=4,
    )  # fmt: skip
    tokenizer = tiny.clip_tokenizer(folder())
    pipe = diffusers.StableDiffusion3Pipeline(
        transformer=network, vae=tiny.vae(use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.1),
        text_encoder=CLIPTextModelWithProjection(tiny.clip_encoder(32).config), tokenizer=tokenizer,
        text_encoder_2=CLIPTextModelWithProjection(tiny.clip_encoder(32).config), tokenizer_2=tokenizer,
        text_encoder_3=None, tokenizer_3=None, scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
    )  # fmt: skip
    return tiny.quiet(pipe), {"prompt": "a", "height": 16, "width": 16, "max_sequence_length": 16}


def _wan_network():
    return diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, text_dim=32,
        freq_dim=16, ffn_dim=4 * WIDTH, num_layers=1, cross_attn_norm=True, qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )  # fmt: skip


def wan(experts=1):
    """A film: states of five dimensions. Two experts share the levels between them."""
    torch.manual_seed(0)
    from transformers import UMT5Config, UMT5EncoderModel

    vae = diffusers.AutoencoderKLWan(
        base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )
    scheduler = diffusers.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0)
    more = {"transformer_2": _wan_network(), "boundary_ratio": 0.875} if experts == 2 else {}
    pipe = diffusers.WanPipeline(
        transformer=_wan_network(), vae=vae, scheduler=scheduler, text_encoder=UMT5EncoderModel(tiny.t5_config(UMT5Config)),
        tokenizer=tiny.t5_tokenizer(), **more,
    )  # fmt: skip
    call = {"prompt": "a", "negative_prompt": "b", "height": 16, "width": 16, "num_frames": 5, "max_sequence_length": 16}
    return tiny.quiet(pipe), call


def film_of_an_image():
    """Stable Video Diffusion: EDM's levels told to a network of v, a picture in place of a text."""
    torch.manual_seed(0)
    from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

    network = diffusers.UNetSpatioTemporalConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=8, in_channels=8, out_channels=4,
        down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
        up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"), cross_attention_dim=32,
        num_attention_heads=4, projection_class_embeddings_input_dim=24, addition_time_embed_dim=8,
    )  # fmt: skip
    vision = CLIPVisionConfig(
        hidden_size=32, projection_dim=32, num_hidden_layers=1, num_attention_heads=4, image_size=32, intermediate_size=37,
        patch_size=8,
    )  # fmt: skip
    pipe = diffusers.StableVideoDiffusionPipeline(
        unet=network, image_encoder=CLIPVisionModelWithProjection(vision),
        feature_extractor=CLIPImageProcessor(crop_size=32, size=32),
        vae=diffusers.AutoencoderKLTemporalDecoder(
            block_out_channels=[32, 64], in_channels=3, out_channels=3, down_block_types=["DownEncoderBlock2D"] * 2,
            latent_channels=4,
        ),
        scheduler=diffusers.EulerDiscreteScheduler(
            **tiny.TABLE, prediction_type="v_prediction", timestep_type="continuous", use_karras_sigmas=True,
            sigma_min=0.002, sigma_max=700.0, timestep_spacing="leading",
        ),
    )  # fmt: skip
    return tiny.quiet(pipe), {"image": image(1, 3, 32, 32), "height": 32, "width": 32, "num_frames": 2}


def sound():
    """Stable Audio: states of three dimensions, a network that is told an angle."""
    torch.manual_seed(0)
    from diffusers.pipelines.stable_audio import StableAudioProjectionModel
    from transformers import T5EncoderModel

    network = diffusers.StableAudioDiTModel(
        sample_size=512, in_channels=3, num_layers=1, attention_head_dim=4, num_attention_heads=2,
        num_key_value_attention_heads=2, out_channels=3, cross_attention_dim=4, time_proj_dim=8,
        global_states_input_dim=8, cross_attention_input_dim=4,
    )  # fmt: skip
    pipe = diffusers.StableAudioPipeline(
        transformer=network, scheduler=diffusers.CosineDPMSolverMultistepScheduler(),
        vae=diffusers.AutoencoderOobleck(
            encoder_hidden_size=6, downsampling_ratios=[1, 2], decoder_channels=3, decoder_input_channels=3,
            audio_channels=2, channel_multiples=[2, 4], sampling_rate=4,
        ),
        text_encoder=T5EncoderModel(tiny.t5_config()), tokenizer=tiny.t5_tokenizer(),
        projection_model=StableAudioProjectionModel(text_encoder_dim=32, conditioning_dim=4, min_value=0, max_value=32),
    )  # fmt: skip
    return tiny.quiet(pipe), {"prompt": "a", "audio_end_in_s": 32.0}


MADE = {
    "stable diffusion": lambda: (tiny.stable_diffusion(folder()), {"prompt": "a"}),
    "stable diffusion v": lambda: (tiny.stable_diffusion(folder(), "v_prediction"), {"prompt": "a"}),
    "sdxl": lambda: (tiny.sdxl(folder()), {"prompt": "a"}),
    "image to image": image_to_image,
    "inpaint": inpaint,
    "instruct": instruct,
    "controlnet": controlnet,
    "pixels": pixels,
    "classes": classes,
    "flux": flux,
    "flux kontext": kontext,
    "flux modular": modular,
    "sd3": sd3,
    "wan": wan,
    "wan two experts": lambda: wan(2),
    "film of an image": film_of_an_image,
    "sound": sound,
}
