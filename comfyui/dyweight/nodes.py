"""The nodes: load a solver, sampler and sigmas from it, sigmas alone. Learning one: learn_node.py."""

import hashlib
import math
from pathlib import Path

import torch

from .files import choices, path_of
from .learn_node import LearnSolver
from .sampling import DyWeightSampler, check_kind, is_flow, with_real_timesteps
from .solver_file import SolverFile

_SOLVER = ("DYWEIGHT_SOLVER", {"tooltip": "A learned solver: from Load DyWeight solver or Learn DyWeight solver."})
_DENOISE = (
    "FLOAT",
    {
        "default": 1.0,
        "min": 0.0,
        "max": 1.0,
        "step": 0.01,
        "tooltip": "What the solver was learned for: 1, or less for one learned for image to image. It always makes all"
        " its steps; its levels are learned, so they cannot be moved to another range. To run only the last part of a"
        " solver, put SplitSigmasDenoise behind sigmas.",
    },
)


class LoadSolver:
    """A solver file from models/dyweight, or a released preset."""

    CATEGORY, FUNCTION = "sampling/dyweight", "load"
    RETURN_TYPES, RETURN_NAMES = ("DYWEIGHT_SOLVER",), ("solver",)
    OUTPUT_TOOLTIPS = ("The solver, for DyWeight sampler and sigmas.",)

    @classmethod
    def INPUT_TYPES(cls):
        tooltip = "Files in models/dyweight, and released presets for Stable Diffusion 1.5 (ms-coco) and FLUX.1-dev."
        return {"required": {"solver": (choices(), {"tooltip": tooltip})}}

    @classmethod
    def IS_CHANGED(cls, solver):
        return hashlib.sha256(Path(path_of(solver)).read_bytes()).hexdigest()

    def load(self, solver):
        return (SolverFile.load(path_of(solver)),)


def _sigmas(solver, denoise):
    """The states of a run."""
    if denoise <= 0.0:
        return torch.FloatTensor([])
    training = solver.record.get("training")
    learned = training.get("denoise", 1.0) if isinstance(training, dict) else 1.0
    if not math.isclose(denoise, learned, abs_tol=0.005):
        raise ValueError(
            f"DyWeight: denoise is {denoise:g}, but this solver's {solver.steps} steps were learned for {learned:g} and"
            f" cannot be kept on another range: learn a solver for {denoise:g} (Learn DyWeight solver), or run only the"
            f" last part of this one (denoise {learned:g}, then SplitSigmasDenoise)"
        )
    return torch.tensor(solver.run_sigmas, dtype=torch.float32)


class SamplerAndSigmas:
    """Sampler and sigmas of one solver, which so cannot disagree, and the model that takes its levels unrounded."""

    CATEGORY, FUNCTION = "sampling/dyweight", "build"
    RETURN_TYPES, RETURN_NAMES = ("MODEL", "SAMPLER", "SIGMAS"), ("model", "sampler", "sigmas")
    OUTPUT_TOOLTIPS = (
        "The model with real-valued timesteps: sample with this one.",
        "For SamplerCustom or SamplerCustomAdvanced. Parts of a run (SplitSigmas, two experts) hand over their slopes.",
        "The solver's own levels. Other sigmas are refused; parts of these are not.",
    )

    @classmethod
    def INPUT_TYPES(cls):
        model = ("MODEL", {"tooltip": "A flow (FLUX, SD3, Wan, ...) or one with noise levels (SD, SDXL, EDM, ...)."})
        return {"required": {"model": model, "solver": _SOLVER, "denoise": _DENOISE}}

    def build(self, model, solver, denoise):
        check_kind(solver, is_flow(model.get_model_object("model_sampling")))
        return with_real_timesteps(model), DyWeightSampler(solver), _sigmas(solver, denoise)


class SolverSigmas:
    """The sigmas of a solver alone: where its states are."""

    CATEGORY, FUNCTION = "sampling/dyweight", "sigmas"
    RETURN_TYPES, RETURN_NAMES = ("SIGMAS",), ("sigmas",)
    OUTPUT_TOOLTIPS = ("The solver's own levels, for nodes that look at sigmas.",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"solver": _SOLVER, "denoise": _DENOISE}}

    def sigmas(self, solver, denoise):
        return (_sigmas(solver, denoise),)


NODE_CLASS_MAPPINGS = {
    "DyWeightLoadSolver": LoadSolver,
    "DyWeightSamplerAndSigmas": SamplerAndSigmas,
    "DyWeightSigmas": SolverSigmas,
    "DyWeightLearnSolver": LearnSolver,
}
NODE_DISPLAY_NAME_MAPPINGS = {
    "DyWeightLoadSolver": "Load DyWeight solver",
    "DyWeightSamplerAndSigmas": "DyWeight sampler and sigmas",
    "DyWeightSigmas": "DyWeight sigmas",
    "DyWeightLearnSolver": "Learn DyWeight solver",
}
for _node in NODE_CLASS_MAPPINGS.values():
    _node.DESCRIPTION = " ".join(_node.__doc__.split())
