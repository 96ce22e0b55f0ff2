"""Puts the built-in presets together: crates/dyweight-solvers/assets/presets.json.

usage: python3 tools/presets.py CREDIT.json RELEASED EPD.json > presets.json

CREDIT.json   titles, authors, venues
RELEASED      a folder of solver files NAME.json, made by `dyweight convert` of DyWeight's released files
EPD.json      EPD's released predictors: effective tables, a row for each step and a column for each point
"""

import json
import math
import sys
from pathlib import Path

# Released values lie on or, rounded, beyond their bounds.
INSIDE = 1e-9
# Of the LDM's noise table.
LSUN = (0.03875891355636856, 83.82249447302871)


def logit(p):
    p = min(max(p, INSIDE), 1 - INSIDE)
    return math.log(p / (1 - p))


def table(rows, f):
    return [[f(v) for v in row] for row in rows]


def epd(preset):
    """The solver file of a predictor: what its effective tables are made of."""

    def scale(width):
        return lambda v: 2 * logit((v - 1 + width) / (2 * width)) if width > 0 else 0.0

    steps, latent = len(preset["r"]), preset["dataset"].startswith("lsun")
    kind = preset["schedule"].replace("polynomial", "karras").replace("_", "-")
    body = {} if preset["order"] is None else {"order": preset["order"]}
    body |= {key: preset[key] for key in ("direction_range", "time_range", "last_direction_one")}
    body |= {
        "r": table(preset["r"], logit),
        "scale_dir": table(preset["scale_dir"], scale(preset["direction_range"])),
        "scale_time": table(preset["scale_time"], scale(preset["time_range"])),
        "weight": table(preset["weight"], math.log),
    }
    sigma_min, sigma_max = LSUN if latent else (0.002, 80.0)
    return {
        "format": "dyweight-solver",
        "version": 2,
        "nfe": (1 + len(preset["r"][0])) * steps - preset["afs"],
        "rounds": preset["nfe"],
        "steps": steps,
        "afs": preset["afs"],
        "prediction": "denoised",
        "schedule": ({"kind": kind, "table": "lsun-ldm"} if kind == "discrete" else {"kind": kind}) | {"rho": preset["rho"]},
        "sigma_min": sigma_min,
        "sigma_max": sigma_max,
        "bounded": not latent,
        "method": "epd" if preset["order"] is None else "epd-plugin",
        "body": body,
        "model": {"name": preset["dataset"]},
        "training": {key: preset[key] for key in ("teacher", "substeps", "source")},
    }


def main(credit, released, predictors):
    presets = {path.stem: json.loads(path.read_text()) for path in sorted(Path(released).glob("*.json"))}
    presets |= {preset["name"]: epd(preset) for preset in json.loads(Path(predictors).read_text())["presets"]}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(record, ensure_ascii=False)}" for name, record in presets.items())
    print(f'{{\n"credit": {Path(credit).read_text().strip()},\n"presets": {{\n{lines}\n}}\n}}')


if __name__ == "__main__":
    main(*sys.argv[1:])
