"""The coefficients released with the DyWeight paper (Zhao et al., CVPR 2026), as solver files.

The numbers and whom to thank for them: crates/dyweight-files/assets/presets in the repository, which the package carries along.
"""

import difflib
import functools
import importlib
import json
from pathlib import Path

from .solver_file import FORMAT, NOISE_TABLES, NoiseTable, SolverFile

# In the source tree; an installed package has them in its compiled part.
_SOURCE = Path(__file__).resolve().parents[2] / "crates" / "dyweight-files" / "assets" / "presets" / "official.json"
_EDM_RANGE = (0.002, 80.0)
# The released Stable Diffusion wrapper computes its range in f32, which the one preset off the discrete grid keeps.
_SD15_RANGE_F32 = (0.029167532920837402, 14.614641189575195)
# e^μ, μ = 0.5 + 0.65·(L−256)/3840 with L = 1024 tokens: FLUX at 512×512 pixels.
_FLUX_SHIFT = 1.8776105792643432


@functools.cache
def _collection():
    if _SOURCE.is_file():
        return json.loads(_SOURCE.read_text(encoding="utf-8"))
    try:
        return json.loads(importlib.import_module("dyweight._native").presets())
    except ImportError as error:
        raise FileNotFoundError(f"the presets are missing: neither {_SOURCE} nor dyweight._native is there") from error


def preset_names():
    """Names of all presets."""
    return [preset["name"] for preset in _collection()["presets"]]


def preset(name):
    """The preset of a name as a `SolverFile`."""
    for found in _collection()["presets"]:
        if found["name"] == name:
            return SolverFile(_record(found))
    near = difflib.get_close_matches(name, preset_names(), n=3, cutoff=0.4)
    hint = f"; near ones are {', '.join(near)}" if near else ""
    raise ValueError(f"there is no preset {name!r}{hint}")


def _record(found):
    """What `dyweight convert preset:NAME` writes, as far as sampling goes."""
    released = found["coefficients"]
    guidance, window = released["guidance"], released["window"]
    prediction, schedule, (sigma_min, sigma_max) = _grid_rule(released)
    record = {
        "format": FORMAT,
        "version": 2,
        "method": "dyweight",
        "nfe": released["nfe"],
        "steps": released["steps"],
        "afs": released["afs"],
        "prediction": prediction,
        "schedule": schedule,
        "sigma_min": sigma_min,
        "sigma_max": sigma_max,
        "body": {
            "order": min(window, released["steps"]),
            "time_shift": True,
            "weights": [row[max(i + 1 - window, 0) : i + 1] for i, row in enumerate(released["weights"])],
            "time_scale": released["time_scale"],
        },
        "model": {"name": released["dataset"] or ""},
        "training": {"source": found["source"], "provenance": found["provenance"]},
    }
    if guidance["kind"] in ("cfg", "distilled"):
        record["guidance"] = guidance["rate"]
    return record


def _grid_rule(released):
    """Prediction, schedule and range of a released set."""
    kind, guided = released["schedule"]["kind"], released["guidance"]["kind"] == "cfg"
    if kind == "flux_shift":
        return "velocity", {"kind": "flow", "shift": _FLUX_SHIFT}, (0.0, 1.0)
    rho = released["schedule"]["rho"]
    if kind == "polynomial":
        return "denoised", {"kind": "karras", "rho": rho}, _SD15_RANGE_F32 if guided else _EDM_RANGE
    name = "sd15" if guided else "lsun-ldm"
    table = NoiseTable.scaled_linear(*NOISE_TABLES[name])
    return "denoised", {"kind": "discrete", "table": name, "rho": rho}, (table.sigma(0), table.sigma(999))
