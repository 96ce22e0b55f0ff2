"""What the nodes rely on in ComfyUI, restated: its sampling objects, its sampler class and its folders.

Enough to run the nodes where there is no ComfyUI. The real one is better: COMFYUI_DIR (test_comfyui.py).
"""

import sys
import types
from pathlib import Path

import k_diffusion.sampling
import torch
from reference import Mixture


class NoiseProcess:
    """x = x₀ + σn. At the largest level the noise gets √(1+σ²)."""

    def noise_scaling(self, sigma, noise, latent, max_denoise=False):
        return latent + noise * ((1 + sigma**2) ** 0.5 if max_denoise else sigma)

    def inverse_noise_scaling(self, sigma, latent):
        return latent


class ImageToImage(NoiseProcess):
    """Anything that is none of the known ones."""

    def calculate_input(self, sigma, noise):
        return noise


class Flow:
    """x = (1−σ)x₀ + σn, and the result is divided by 1−σ."""

    def noise_scaling(self, sigma, noise, latent, max_denoise=False):
        return sigma * noise + (1 - sigma) * latent

    def inverse_noise_scaling(self, sigma, latent):
        return latent / (1 - sigma)

    sigma_max = torch.tensor(1.0)

    def timestep(self, sigma):
        return sigma

    def percent_to_sigma(self, percent):
        return 1.0 - percent


class Discrete(torch.nn.Module):
    """A noise table that knows its own timesteps alone."""

    def __init__(self):
        super().__init__()
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
        alphas = torch.cumprod(1 - betas, 0)
        self.register_buffer("sigmas", ((1 - alphas) / alphas).sqrt().float())

    @property
    def sigma_max(self):
        return self.sigmas[-1]

    def timestep(self, sigma):
        return (sigma.log()[:, None] - self.sigmas.log()).abs().argmin(1)

    def percent_to_sigma(self, percent):
        return float(self.sigmas[round(999 * (1.0 - percent))])


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
            callback=lambda step: callback(step["i"], step["denoised"], step["x"], len(sigmas) - 1),
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


def calculate_sigmas(sampling, scheduler, steps):
    """A grid for each name, from the largest level to 0."""
    line = 1.0 - torch.arange(steps + 1) / steps
    shift = {"simple": 1.0, "normal": 2.0, "sgm_uniform": 3.0, "beta": 1.5}.get(scheduler, 4.0)
    if isinstance(sampling, Flow):
        return shift * line / (1.0 + (shift - 1.0) * line)
    return k_diffusion.sampling.get_sigmas_karras(steps, 0.03, float(sampling.sigma_max), rho=3.0 + shift)


def sampler_object(name):
    """LMS stands in for UniPC."""
    functions = {"dpmpp_2m": k_diffusion.sampling.sample_dpmpp_2m, "uni_pc": k_diffusion.sampling.sample_lms}
    return Sampler(functions[name], {})


class ProgressBar:
    def __init__(self, total):
        self.total, self.current = total, 0

    def update(self, value):
        self.current += value

    def update_absolute(self, value):
        self.current = value


class Interrupted(Exception):
    pass


class World:
    kinds = ("eps", "flow")

    def __init__(self, _, folder):
        self.folder = folder / "dyweight"
        self.folder.mkdir()
        places = {}

        def names(kind):
            return [path.name for path in sorted(Path(places[kind][0][0]).iterdir()) if path.suffix in places[kind][1]]

        sampling = types.ModuleType("comfy.model_sampling")
        sampling.CONST, sampling.EPS, sampling.ModelSamplingDiscrete = Flow, NoiseProcess, Discrete
        sampling.IMG_TO_IMG = ImageToImage
        samplers = types.ModuleType("comfy.samplers")
        samplers.KSAMPLER, samplers.calculate_sigmas = Sampler, calculate_sigmas
        samplers.sampler_object = sampler_object
        samplers.KSampler = types.SimpleNamespace(DISCARD_PENULTIMATE_SIGMA_SAMPLERS={"uni_pc"})
        sample = types.ModuleType("comfy.sample")
        sample.fix_empty_latent_channels = lambda model, latent: latent
        sample.prepare_noise = lambda latent, seed: torch.randn(latent.shape, generator=torch.manual_seed(seed))
        sample.sample_custom = self._sample_custom
        utils, management = types.ModuleType("comfy.utils"), types.ModuleType("comfy.model_management")
        utils.ProgressBar, management.InterruptProcessingException = ProgressBar, Interrupted
        management.throw_exception_if_processing_interrupted = self._interrupt
        management.interrupt_current_processing = lambda: setattr(self, "interrupted", True)
        self.interrupted = False
        comfy = types.ModuleType("comfy")
        comfy.model_sampling, comfy.samplers, comfy.sample = sampling, samplers, sample
        comfy.utils, comfy.model_management = utils, management
        folders = types.ModuleType("folder_paths")
        folders.models_dir, folders.folder_names_and_paths = str(folder), places
        folders.add_model_folder_path = lambda kind, path: places.update({kind: ([path], set())})
        folders.get_filename_list = names
        folders.get_full_path_or_raise = lambda kind, name: str(Path(places[kind][0][0]) / name)
        for module in (comfy, sampling, samplers, sample, utils, management, folders):
            sys.modules[module.__name__] = module

    def _sample_custom(self, model, noise, cfg, sampler, sigmas, positive, negative, latent, callback, **_):
        return sampler.sample(model, sigmas, {"cfg": cfg}, callback, noise, latent)

    def _interrupt(self):
        if self.interrupted:
            self.interrupted = False
            raise Interrupted

    def shape(self, kind):
        return (3, 2, 2)

    def conditioning(self, kind):
        return [], []

    def model(self, kind):
        if kind == "flow":
            return Model(Flow(), True)
        return Model(type("ModelSampling", (Discrete, NoiseProcess), {})(), False)

    def sample(self, model, noise, sampler, sigmas, cfg, image=None):
        """Result, what the sampler reported at each step, what the network was told."""
        seen = []
        model.told.clear()

        def callback(i, denoised, x, total):
            seen.append({"x": x.double().numpy().copy(), "denoised": denoised.double().numpy().copy()})

        image = torch.zeros_like(noise) if image is None else image
        result = sampler.sample(model, sigmas, {"cfg": cfg}, callback, noise, image)
        return result.double().numpy(), seen, list(model.told)
