"""ComfyUI itself, on the processor, with tiny random models."""

import sys

import torch


class World:
    def __init__(self, checkout, folder):
        sys.path.insert(0, str(checkout))
        import comfy.cli_args

        comfy.cli_args.args.cpu = True
        import comfy.model_base
        import comfy.model_patcher
        import comfy.sample
        import comfy.supported_models
        import folder_paths

        self.comfy, self.folder = comfy, folder / "dyweight"
        self.folder.mkdir()
        folder_paths.models_dir = str(folder)

    def shape(self, kind):
        return (16, 8, 8) if kind.startswith("flow") else (4, 8, 8)

    def model(self, kind):
        torch.manual_seed(0)
        base, models = self.comfy.model_base, self.comfy.supported_models
        if kind == "flow":
            config = models.Flux(dict(
                image_model="flux", in_channels=16, out_channels=16, vec_in_dim=32, context_in_dim=32, hidden_size=64,
                mlp_ratio=4.0, num_heads=4, depth=1, depth_single_blocks=1, axes_dim=[4, 6, 6], theta=10000, patch_size=2,
                qkv_bias=True, guidance_embed=True, txt_ids_dims=[],
            ))  # fmt: skip
            config.set_inference_dtype(torch.float32, None)
            model = base.Flux(config)
        else:
            config = models.SD15(dict(
                image_size=8, in_channels=4, out_channels=4, model_channels=32, num_res_blocks=[1, 1], channel_mult=[1, 2],
                transformer_depth=[1, 1], transformer_depth_output=[1, 1, 1, 1], transformer_depth_middle=1, context_dim=16,
                num_heads=2, num_head_channels=-1, use_spatial_transformer=True, legacy=False, use_temporal_attention=False,
                use_linear_in_transformer=False, adm_in_channels=None,
            ))  # fmt: skip
            config.set_inference_dtype(torch.float32, None)
            model = base.BaseModel(config, base.ModelType.V_PREDICTION if kind == "v" else base.ModelType.EPS)
        for name, weight in model.diffusion_model.named_parameters():
            # ComfyUI leaves weights uninitialised, for a file to fill.
            weight.data = (
                torch.ones(weight.shape) if "norm" in name and weight.ndim == 1 else torch.randn(weight.shape) * 0.1
            )
        return self.comfy.model_patcher.ModelPatcher(model, torch.device("cpu"), torch.device("cpu"))

    def sample(self, model, noise, sampler, sigmas, cfg, image=None):
        """Result, what the sampler reported at each step, what the network was told."""
        seen, told = [], []
        network = model.model.diffusion_model
        hook = network.register_forward_pre_hook(lambda _, arguments: told.append(float(arguments[1].flatten()[0])))

        def callback(i, denoised, x, total):
            seen.append({"x": x.double().numpy().copy(), "denoised": denoised.double().numpy().copy()})

        flow = noise.shape[1] == 16
        generator = torch.manual_seed(7)
        width = 32 if flow else 16
        more = {"pooled_output": torch.randn(1, 32, generator=generator), "guidance": 3.5} if flow else {}
        positive, negative = ([[torch.randn(1, 5, width, generator=generator), dict(more)]] for _ in range(2))
        latent = torch.zeros_like(noise) if image is None else model.model.latent_format.process_out(image)
        try:
            result = self.comfy.sample.sample_custom(
                model,
                noise,
                cfg,
                sampler,
                sigmas,
                positive,
                negative,
                latent,
                callback=callback,
                disable_pbar=True,
                seed=0,
            )
        finally:
            hook.remove()
        # ComfyUI hands out latents in the autoencoder's scale.
        return model.model.latent_format.process_in(result).double().numpy(), seen, told
