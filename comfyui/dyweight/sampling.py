"""What a solver needs of ComfyUI: a process that is known, levels that are not rounded, noise scaled as in learning.

ComfyUI's discrete models look up the nearest integer timestep for a level; solvers tell the network levels between
them. At the largest level its sampler scales the noise by √(1+σ²); solvers are learned from σ·noise.
"""

import copy

import comfy.model_sampling
import comfy.samplers
import torch

from .k_diffusion import History, sample_dyweight

# ComfyUI's conversions that are understood. Flows: x = (1−σ)x₀ + σn; all others: x = x₀ + σn.
_FLOWS, _OTHERS = ("CONST",), ("EPS", "V_PREDICTION", "EDM", "X0", "COSMOS_RFLOW")
_PARTS = ("calculate_input", "calculate_denoised", "noise_scaling")
# One for all samplers: the two experts of a run have one each.
_HISTORY = History()


class UnknownModel(ValueError):
    """A model whose process is not known well enough to be sampled."""


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


def is_flow(model_sampling):
    """Whether a model's process is x = (1−σ)x₀ + σn, and not x₀ + σn. Any other is refused by name."""
    kind = type(model_sampling)
    same = [name for name in (*_FLOWS, *_OTHERS) if _is_as(kind, getattr(comfy.model_sampling, name, None))]
    if not same:
        raise UnknownModel(
            f"DyWeight: the model's sampling ({_name(kind)}) is not known: flows (CONST) and x = x₀ + σn"
            f" ({', '.join(_OTHERS)}) are; few-step models (LCM) need no solver"
        )
    if not rounds_levels(model_sampling) and _rounds_by_itself(model_sampling):
        raise UnknownModel(f"DyWeight: the model's sampling ({_name(kind)}) rounds levels in a way that is not known")
    return same[0] in _FLOWS


def _is_as(kind, known):
    return known is not None and all(getattr(kind, p, None) is getattr(known, p, None) for p in _PARTS)


def _name(kind):
    return "/".join(base.__name__ for base in kind.__bases__ if base is not object) or kind.__name__


def _rounds_by_itself(model_sampling):
    """Whether a level between two neighbouring ones becomes the timestep of one of them."""
    sigmas = getattr(model_sampling, "sigmas", None)
    if sigmas is None:
        return False
    low, high = sigmas[len(sigmas) // 2 : len(sigmas) // 2 + 2].float()
    a, between, b = (float(model_sampling.timestep(level[None])) for level in (low, (low + high) / 2, high))
    return not min(a, b) < between < max(a, b)


class DyWeightSampler(comfy.samplers.KSAMPLER):
    """SAMPLER that runs a solver on its own sigmas."""

    def __init__(self, solver, history=_HISTORY):
        super().__init__(sample_dyweight, {"solver": solver, "history": history})
        self.solver = solver

    def max_denoise(self, model_wrap, sigmas):
        """Noise is scaled by σ at every level, the largest included."""
        return False

    def sample(self, model_wrap, sigmas, *arguments, **options):
        sampling = model_wrap.inner_model.model_sampling
        check_kind(self.solver, is_flow(sampling))
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
