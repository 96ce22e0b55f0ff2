"""What a solver needs of ComfyUI: levels that are not rounded, and noise that is scaled as it was in training.

ComfyUI's discrete models look up the nearest integer timestep for a level; solvers tell the network levels between them.
At the largest level its sampler scales the noise by √(1+σ²); solvers are learned from σ·noise.
"""

import copy

import comfy.model_sampling
import comfy.samplers
import torch

from .k_diffusion import sample_dyweight


class _RealTimesteps:
    """Real-valued timesteps for a discrete noise table: ln α = −½ ln(1+σ²) is linear between them."""

    def timestep(self, sigma):
        knots = -0.5 * torch.log1p(self.sigmas.double() ** 2)
        log_alpha = -0.5 * torch.log1p(sigma.double().to(knots.device) ** 2)
        right = torch.searchsorted(-knots, -log_alpha).clamp(1, len(knots) - 1)
        a, b = knots[right - 1], knots[right]
        return (right - 1 + (log_alpha - a) / (b - a)).to(sigma.device, torch.float32)


def rounds_levels(model_sampling):
    """Whether a model's sampling object turns levels into integer timesteps by ComfyUI's table look-up."""
    lookup = comfy.model_sampling.ModelSamplingDiscrete.timestep
    return getattr(type(model_sampling), "timestep", None) is lookup


def with_real_timesteps(model):
    """The model, on a clone of which fractional levels arrive at the network."""
    sampling = model.get_model_object("model_sampling")
    if not rounds_levels(sampling):
        return model
    patched = copy.deepcopy(sampling)
    patched.__class__ = type("RealTimesteps", (_RealTimesteps, type(sampling)), {})
    model = model.clone()
    model.add_object_patch("model_sampling", patched)
    return model


def is_flow(model):
    """Whether a model's process is x = (1−σ)x₀ + σn."""
    return isinstance(model.get_model_object("model_sampling"), comfy.model_sampling.CONST)


class DyWeightSampler(comfy.samplers.KSAMPLER):
    """SAMPLER that runs a solver on its own sigmas."""

    def __init__(self, solver):
        super().__init__(sample_dyweight, {"solver": solver})
        self.solver = solver

    def max_denoise(self, model_wrap, sigmas):
        """Noise is scaled by σ at every level, the largest included."""
        return False

    def sample(self, model_wrap, sigmas, *arguments, **options):
        sampling = model_wrap.inner_model.model_sampling
        check_kind(self.solver, isinstance(sampling, comfy.model_sampling.CONST))
        if rounds_levels(sampling):
            raise ValueError(
                "DyWeight: this model rounds levels to integer timesteps; use the MODEL output of the node"
            )
        return super().sample(model_wrap, sigmas, *arguments, **options)


def check_kind(solver, flow):
    """A solver belongs to flows or to noise tables."""
    if flow != (solver.prediction == "velocity"):
        kinds = {True: "flow models", False: "models with a noise table (SD, SDXL)"}
        raise ValueError(
            f"DyWeight: this solver was learned for {kinds[not flow]}, and the model is one of {kinds[flow]}"
        )
