"""Cuts the first visits out of reference records of LD3's training into one small safetensors file.

usage: python3 subset_learned.py DIRECTORY    (writes ld3_loop.safetensors where it is called)

DIRECTORY holds ld3.json and ld3.safetensors: the authors' training loop, run on an exact Gaussian mixture in f64.
"""

import json
import sys

from safetensors.numpy import load_file, save_file
import numpy as np

VISITS = 10


def starts(run, data):
    """The numbers each visit starts with: those the last one left, or at the start of a later round the best so far."""
    of = lambda key: data[f"train{run['id']}.{key}"]
    best = current = np.concatenate([of("p1_init"), of("p2_init")])
    checks, out, rounds = iter(run["checkpoints"]), [], -1
    for k, visit in enumerate(run["visits"][:VISITS]):
        if visit["kind"] == "train" and visit["round"] != rounds:
            rounds, current = visit["round"], best
            next(checks)
        out.append(current)
        current = np.concatenate([of("p1_now")[k], of("p2_now")[k]])
        if visit["kind"] == "train" and next(checks)["count_worse"] == 0:
            best = current
    return np.stack(out)


def main(directory):
    records, data = json.load(open(f"{directory}/ld3.json")), load_file(f"{directory}/ld3.safetensors")
    out = {k: v for k, v in data.items() if k.startswith("model.")}
    metadata = {}
    for run in records["training"]:
        name = f"run{run['id']}"
        visits = run["visits"][:VISITS]
        for key in ("latents", "targets", "p1_init", "p2_init"):
            out[f"{name}.{key}"] = data[f"train{run['id']}.{key}"]
        for key in ("loss", "loss_after", "grad_p1", "grad_p2", "p1", "p2", "p1_now", "p2_now", "trial", "latent"):
            out[f"{name}.{key}"] = data[f"train{run['id']}.{key}"][:VISITS]
        out[f"{name}.start"] = starts(run, data)
        out[f"{name}.batch"] = np.array([v["batch"] for v in visits], dtype=np.float64)
        out[f"{name}.is_valid"] = np.array([v["kind"] == "valid" for v in visits], dtype=np.float64)
        out[f"{name}.round"] = np.array([v["round"] for v in visits], dtype=np.float64)
        rates = [[v["shift_lr"], v["lr1"], v["lr2"]] for v in visits]
        first = [[run["shift_lr_used"], run["lr_time_1"], run["lr_time_2_used"]]]
        # The rates of a visit are those after the one before it.
        out[f"{name}.rates"] = np.array(first + rates[:-1])
        options = ("solver", "order", "time_mode", "win_rate", "variant", "rounds_v1", "prior_bound_used")
        metadata[name] = json.dumps({k: run[k] for k in options if k in run})
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, "ld3_loop.safetensors", metadata)


main(sys.argv[1])
