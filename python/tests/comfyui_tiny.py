"""Tiny random models in ComfyUI's own classes; as a custom node it hands them out to a server."""

import torch

FLOWS = ("flow", "aura")
KINDS = ("eps", "v", "edm", "flow", "aura")


def shape(kind):
    """Of one latent."""
    return (16, 8, 8) if kind in FLOWS else (4, 8, 8)


def model(kind):
    """SD 1.5's classes with a noise table (ε, v) or as EDM; FLUX's, as they are and with AuraFlow's sampling."""
    import comfy.model_patcher
    from comfy.model_base import ModelType

    torch.manual_seed(0)
    types = {"eps": ModelType.EPS, "v": ModelType.V_PREDICTION, "edm": ModelType.EDM}
    made = _flux() if kind in FLOWS else _sd15(types[kind])
    for name, weight in made.diffusion_model.named_parameters():
        # ComfyUI leaves weights uninitialised, for a file to fill.
        is_gain = "norm" in name and weight.ndim == 1
        weight.data = torch.ones(weight.shape) if is_gain else torch.randn(weight.shape) * 0.1
    patcher = comfy.model_patcher.ModelPatcher(made, torch.device("cpu"), torch.device("cpu"))
    if kind == "aura":
        import nodes  # noqa: F401  # what the next line imports needs it first
        from comfy_extras.nodes_model_advanced import ModelSamplingAuraFlow

        (patcher,) = ModelSamplingAuraFlow().patch_aura(patcher, 1.73)
    return patcher


def _flux():
    from comfy import model_base, supported_models

    config = supported_models.Flux(dict(
        image_model="flux", in_channels=16, out_channels=16, vec_in_dim=32, context_in_dim=32, hidden_size=64,
        mlp_ratio=4.0, num_heads=4, depth=1, depth_single_blocks=1, axes_dim=[4, 6, 6], theta=10000, patch_size=2,
        qkv_bias=True, guidance_embed=True, txt_ids_dims=[],
    ))  # fmt: skip
    config.set_inference_dtype(torch.float32, None)
    return model_base.Flux(config)


def _sd15(kind):
    from comfy import model_base, supported_models

    config = supported_models.SD15(dict(
        image_size=8, in_channels=4, out_channels=4, model_channels=32, num_res_blocks=[1, 1], channel_mult=[1, 2],
        transformer_depth=[1, 1], transformer_depth_output=[1, 1, 1, 1], transformer_depth_middle=1, context_dim=16,
        num_heads=2, num_head_channels=-1, use_spatial_transformer=True, legacy=False, use_temporal_attention=False,
        use_linear_in_transformer=False, adm_in_channels=None,
    ))  # fmt: skip
    config.set_inference_dtype(torch.float32, None)
    return model_base.BaseModel(config, kind)


def conditioning(kind):
    """Positive and negative."""
    generator = torch.Generator().manual_seed(7)
    width = 32 if kind in FLOWS else 16
    pooled = torch.randn(1, 32, generator=generator)
    more = {"pooled_output": pooled, "guidance": 3.5} if kind in FLOWS else {}
    return [[[torch.randn(1, 5, width, generator=generator), dict(more)]] for _ in range(2)]


class TinyModel:
    """A model, its conditioning and an empty latent."""

    RETURN_TYPES, FUNCTION = ("MODEL", "CONDITIONING", "CONDITIONING", "LATENT"), "make"
    CATEGORY = "testing"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"kind": (KINDS,)}}

    def make(self, kind):
        return (model(kind), *conditioning(kind), {"samples": torch.zeros(1, *shape(kind))})


NODE_CLASS_MAPPINGS = {"TinyModel": TinyModel}
