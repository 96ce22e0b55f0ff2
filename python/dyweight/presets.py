"""The coefficients released with the DyWeight paper (Zhao et al., CVPR 2026), as solver files.

The files and whom to thank for them: crates/dyweight-solvers/assets in the repository, which the package carries along.
"""

import copy
import difflib
import functools
import importlib
import json
from pathlib import Path

# In the source tree; an installed package has them in its compiled part.
_SOURCE = Path(__file__).resolve().parents[2] / "crates" / "dyweight-solvers" / "assets" / "presets.json"


@functools.cache
def _collection():
    try:
        text = _SOURCE.read_text("utf-8") if _SOURCE.is_file() else importlib.import_module("dyweight._native").presets()
    except ImportError as error:
        raise FileNotFoundError(f"the presets are missing: neither {_SOURCE} nor dyweight._native is there") from error
    return {name: record for name, record in json.loads(text)["presets"].items() if record["method"] == "dyweight"}


def preset_names():
    """Names of all presets."""
    return list(_collection())


def record(name):
    """The content of the preset's solver file."""
    if name in _collection():
        return copy.deepcopy(_collection()[name])
    near = difflib.get_close_matches(name, preset_names(), n=3, cutoff=0.4)
    hint = f"; near ones are {', '.join(near)}" if near else ""
    raise ValueError(f"there is no preset {name!r}{hint}")


def preset(name):
    """The preset of a name as a `Solver`."""
    from .solver import Solver

    return Solver(record(name))
