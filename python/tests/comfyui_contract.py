"""What the nodes rely on in ComfyUI, restated: its sampling objects, its sampler class and its folders.

Enough to run the nodes where there is no ComfyUI. The real one is better: COMFYUI_DIR (test_comfyui.py).
"""

import sys
import types
from pathlib import Path

import torch
from reference import Mixture


class NoiseProcess:
    """x = x₀ + σn. At the largest level the noise gets √(1+σ²)."""

    def noise_scaling(self, sigma, noise, latent, max_denoise=False):
        return latent + noise * ((1 + sigma**2) ** 0.5 if max_denoise else sigma)

    def inverse_noise_scaling(self, sigma, latent):
        return latent


class Flow:
    """x = (1−σ)x₀ + σn, and the result is divided by 1−σ."""

    def noise_scaling(self, sigma, noise, latent, max_denoise=False):
        return sigma * noise + (1 - sigma) * latent

    def inverse_noise_scaling(self, sigma, latent):
        return latent / (1 - sigma)

    def timestep(self, sigma):
        return sigma


class Discrete(torch.nn.Module):
    """A noise table that knows its own timesteps alone."""

    def __init__(self):
        super().__init__()
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
        alphas = torch.cumprod(1 - betas, 0)
        self.register_buffer("sigmas", ((1 - alphas) / alphas).sqrt().float())

    def timestep(self, sigma):
        return (sigma.log()[:, None] - self.sigmas.log()).abs().argmin(1)


class Sampler:
    """Noise in, sampler function, result out."""

    def __init__(self, function, extra_options):
        self.sampler_function, self.extra_options = function, extra_options

    def max_denoise(self, model, sigmas):
        return float(sigmas[0]) >= float(model.inner_model.model_sampling.sigmas[-1]) * (1 - 1e-5)

    def sample(self, model, sigmas, extra_args, callback, noise, latent_image):
        sampling = model.inner_model.model_sampling
        full = hasattr(sampling, "sigmas") and self.max_denoise(model, sigmas)
        x = sampling.noise_scaling(sigmas[0], noise, latent_image, full)
        x = self.sampler_function(
            model,
            x,
            sigmas,
            extra_args=extra_args,
            callback=lambda step: callback(step["i"], step["denoised"], step["x"]),
            disable=True,
            **self.extra_options,
        )
        return sampling.inverse_noise_scaling(sigmas[-1], x)


class Model:
    """A mixture behind a sampling object, as model patcher, model and denoiser in one."""

    def __init__(self, sampling, flow, told=None):
        self.model_sampling, self.flow, self.told = sampling, flow, [] if told is None else told
        self.inner_model = self

    def get_model_object(self, name):
        return getattr(self, name)

    def clone(self):
        return Model(self.model_sampling, self.flow, self.told)

    def add_object_patch(self, name, value):
        setattr(self, name, value)

    def __call__(self, x, sigma, cfg):
        self.told.append(float(self.model_sampling.timestep(sigma)[0]))
        mixture = Mixture.random(x[0].numel())
        mixture.flow = self.flow
        level = sigma.reshape(-1, 1)[:1]
        return cfg * (x - level * mixture(x, level) if self.flow else mixture(x, level)).reshape(x.shape)


class World:
    def __init__(self, _, folder):
        self.folder = folder / "dyweight"
        self.folder.mkdir()
        places = {}

        def names(kind):
            return [path.name for path in sorted(Path(places[kind][0][0]).iterdir()) if path.suffix in places[kind][1]]

        sampling = types.ModuleType("comfy.model_sampling")
        sampling.CONST, sampling.ModelSamplingDiscrete = Flow, Discrete
        samplers = types.ModuleType("comfy.samplers")
        samplers.KSAMPLER = Sampler
        comfy = types.ModuleType("comfy")
        comfy.model_sampling, comfy.samplers = sampling, samplers
        folders = types.ModuleType("folder_paths")
        folders.models_dir, folders.folder_names_and_paths = str(folder), places
        folders.add_model_folder_path = lambda kind, path: places.update({kind: ([path], set())})
        folders.get_filename_list = names
        folders.get_full_path_or_raise = lambda kind, name: str(Path(places[kind][0][0]) / name)
        for module in (comfy, sampling, samplers, folders):
            sys.modules[module.__name__] = module

    def shape(self, kind):
        return (3, 2, 2)

    def model(self, kind):
        if kind == "flow":
            return Model(Flow(), True)
        return Model(type("ModelSampling", (Discrete, NoiseProcess), {})(), False)

    def sample(self, model, noise, sampler, sigmas, cfg, image=None):
        """Result, what the sampler reported at each step, what the network was told."""
        seen = []
        model.told.clear()

        def callback(i, denoised, x):
            seen.append({"x": x.double().numpy().copy(), "denoised": denoised.double().numpy().copy()})

        image = torch.zeros_like(noise) if image is None else image
        result = sampler.sample(model, sigmas, {"cfg": cfg}, callback, noise, image)
        return result.double().numpy(), seen, list(model.told)
