"""The nodes: load a solver, sampler and sigmas from it, sigmas alone."""

import hashlib
from pathlib import Path

import folder_paths
import torch

from .sampling import DyWeightSampler, check_kind, is_flow, with_real_timesteps
from .solver_file import SolverFile

FOLDER = "dyweight"
RELEASED = Path(__file__).with_name("solvers")
folder_paths.add_model_folder_path(FOLDER, str(Path(folder_paths.models_dir) / FOLDER))
folder_paths.folder_names_and_paths[FOLDER] = (folder_paths.folder_names_and_paths[FOLDER][0], {".json"})


def _choices():
    own = [f"preset: {path.stem}" for path in sorted(RELEASED.glob("*.json"))]
    return [*folder_paths.get_filename_list(FOLDER), *own]


def _path(name):
    if name.startswith("preset: "):
        return RELEASED / (name.removeprefix("preset: ") + ".json")
    return folder_paths.get_full_path_or_raise(FOLDER, name)


class LoadSolver:
    """A solver file from models/dyweight, or a released preset."""

    CATEGORY, FUNCTION = "sampling/dyweight", "load"
    RETURN_TYPES, RETURN_NAMES = ("DYWEIGHT_SOLVER",), ("solver",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"solver": (_choices(), {"tooltip": "Files in models/dyweight, and released presets"})}}

    @classmethod
    def IS_CHANGED(cls, solver):
        return hashlib.sha256(Path(_path(solver)).read_bytes()).hexdigest()

    def load(self, solver):
        return (SolverFile.load(_path(solver)),)


def _sigmas(solver, denoise):
    """The states of a run; with denoise below 1 of its last part."""
    if denoise <= 0.0:
        return torch.FloatTensor([])
    kept = solver.steps if denoise >= 1.0 else max(int(solver.steps * denoise), 1)
    return torch.tensor(solver.run_sigmas[solver.steps - kept :], dtype=torch.float32)


_DENOISE = ("FLOAT", {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01, "tooltip": "Below 1: image to image"})


class SamplerAndSigmas:
    """Sampler and sigmas of one solver, which so cannot disagree, and the model that takes its levels unrounded."""

    CATEGORY, FUNCTION = "sampling/dyweight", "build"
    RETURN_TYPES, RETURN_NAMES = ("MODEL", "SAMPLER", "SIGMAS"), ("model", "sampler", "sigmas")

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "solver": ("DYWEIGHT_SOLVER",), "denoise": _DENOISE}}

    def build(self, model, solver, denoise):
        check_kind(solver, is_flow(model))
        return with_real_timesteps(model), DyWeightSampler(solver), _sigmas(solver, denoise)


class SolverSigmas:
    """The sigmas of a solver alone: where its states are."""

    CATEGORY, FUNCTION = "sampling/dyweight", "sigmas"
    RETURN_TYPES, RETURN_NAMES = ("SIGMAS",), ("sigmas",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"solver": ("DYWEIGHT_SOLVER",), "denoise": _DENOISE}}

    def sigmas(self, solver, denoise):
        return (_sigmas(solver, denoise),)


NODE_CLASS_MAPPINGS = {
    "DyWeightLoadSolver": LoadSolver,
    "DyWeightSamplerAndSigmas": SamplerAndSigmas,
    "DyWeightSigmas": SolverSigmas,
}
NODE_DISPLAY_NAME_MAPPINGS = {
    "DyWeightLoadSolver": "Load DyWeight solver",
    "DyWeightSamplerAndSigmas": "DyWeight sampler and sigmas",
    "DyWeightSigmas": "DyWeight sigmas",
}
for _node in NODE_CLASS_MAPPINGS.values():
    _node.DESCRIPTION = _node.__doc__
