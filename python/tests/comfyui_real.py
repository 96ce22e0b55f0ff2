"""ComfyUI itself, on the processor, with tiny random models."""

import sys

import comfyui_tiny as tiny
import torch


class World:
    # All kinds are learned for over HTTP.
    kinds = ("eps", "flow")

    def __init__(self, checkout, folder):
        sys.path.insert(0, str(checkout))
        import comfy.cli_args

        comfy.cli_args.args.cpu = True
        import comfy.model_patcher
        import comfy.sample
        import folder_paths

        self.comfy, self.folder = comfy, folder / "dyweight"
        self.folder.mkdir()
        folder_paths.models_dir = str(folder)

    def shape(self, kind):
        return tiny.shape(kind.split("-")[0])

    def model(self, kind):
        return tiny.model(kind)

    def conditioning(self, kind):
        return tiny.conditioning(kind)

    def sample(self, model, noise, sampler, sigmas, cfg, image=None):
        """Result, what the sampler reported at each step, what the network was told."""
        seen, told = [], []
        network = model.model.diffusion_model
        hook = network.register_forward_pre_hook(lambda _, arguments: told.append(float(arguments[1].flatten()[0])))

        def callback(i, denoised, x, total):
            seen.append({"x": x.double().numpy().copy(), "denoised": denoised.double().numpy().copy()})

        positive, negative = tiny.conditioning("flow" if noise.shape[1] == 16 else "eps")
        latent = torch.zeros_like(noise) if image is None else model.model.latent_format.process_out(image)
        try:
            result = self.comfy.sample.sample_custom(
                model, noise, cfg, sampler, sigmas, positive, negative, latent,
                callback=callback, disable_pbar=True, seed=0,
            )  # fmt: skip
        finally:
            hook.remove()
        # ComfyUI hands out latents in the autoencoder's scale.
        return model.model.latent_format.process_in(result).double().numpy(), seen, told
