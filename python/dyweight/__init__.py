"""Few-step diffusion sampling with learned solvers.

    model = dyweight.Model(fn, shape=(3, 64, 64), prediction="eps", sigma_range=(0.01, 20), sigma_to_t=sigmas)
    solver = dyweight.train(model, nfe=5, out="solver.json")
    images = dyweight.sample(model, solver, seeds=range(16))

    dyweight.few_steps(pipe, steps=5, prompts=["a red bicycle", "a lighthouse at dusk"])     # a pipeline of diffusers, as it is

`Model`, `train`, `sample`, `compare`, `few_steps` and `Comm` need the compiled part of the package; `Solver` and `preset` read
without it; `dyweight.diffusers` and `dyweight.k_diffusion` need PyTorch. Nothing is imported before it is used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .comparing import Comparison as Comparison
    from .comparing import compare as compare
    from .distributed import Comm as Comm
    from .model import Model as Model
    from .pipelines import FewSteps as FewSteps
    from .pipelines import few_steps as few_steps
    from .pipelines import train_pipeline as train_pipeline
    from .presets import preset as preset
    from .presets import preset_names as preset_names
    from .sampling import State as State
    from .sampling import noise as noise
    from .sampling import sample as sample
    from .solver import Solver as Solver
    from .solver_file import SolverFileError as SolverFileError
    from .training import Estimate as Estimate
    from .training import Iteration as Iteration
    from .training import estimate as estimate
    from .training import plan as plan
    from .training import train as train

_PLACES = {
    "solver_file": ["SolverFileError"],
    "presets": ["preset", "preset_names"],
    "model": ["Model"],
    "solver": ["Solver"],
    "training": ["Estimate", "Iteration", "estimate", "plan", "train"],
    "sampling": ["State", "noise", "sample"],
    "pipelines": ["FewSteps", "few_steps", "train_pipeline"],
    "comparing": ["Comparison", "compare"],
    "distributed": ["Comm"],
}
__version__ = "0.1.0"
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    except ImportError as error:
        if "_native" not in str(error):
            raise
        raise ImportError(
            f"{name} needs the compiled part of the package (dyweight._native), which is not installed here;"
            " solver files, presets and the scheduler work without it"
        ) from error


def __dir__():
    return sorted([*globals(), *__all__])
