"""Few-step diffusion sampling with learned solvers.

`SolverFile` and `preset` are plain Python; `dyweight.diffusers`, `dyweight.k_diffusion` and `dyweight.pipeline` need
PyTorch. Nothing is imported before it is used.
"""

import importlib

_PURE = {"SolverFile": "solver_file", "SolverFileError": "solver_file", "preset": "presets", "preset_names": "presets"}
__all__ = list(_PURE)


def __getattr__(name):
    if name in _PURE:
        return getattr(importlib.import_module(f".{_PURE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
