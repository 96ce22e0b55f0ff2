"""Cuts the small reference files of `golden.rs` out of the full ones of the reference implementation (PyTorch, f64).

    python3 subset_golden.py DIRECTORY

DIRECTORY holds solver_trajectories.{json,safetensors}, training_traces.{json,safetensors} and torch_noise.safetensors.
Standard library alone; tensors are copied byte for byte.
"""

import json
import shutil
import struct
import sys
from math import prod

CASES = [0, 6, 20, 26, 33, 48, 53, 54, 67, 79, 82, 87, 89, 93, 101, 106, 113, 119, 129, 131, 133, 139, 144, 145, 149, 152, 154, 157, 160, 161]
RUNS, ITERATIONS = [0, 2], 12


def load(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in header.items()}


def save(path, tensors, metadata):
    header, at = {"__metadata__": metadata}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))


def first(tensor, rows):
    dtype, shape, raw = tensor
    return dtype, [rows, *shape[1:]], raw[: rows * prod(shape[1:]) * 8]


def main(source):
    everything = load(f"{source}/solver_trajectories.safetensors")
    cases = [c for c in json.load(open(f"{source}/solver_trajectories.json"))["cases"] if c["id"] in CASES]
    kept = {k: everything[k] for k in everything if k.startswith("model.") or k == "latents"}
    for case in cases:
        names = [f"{kind}.{case['id']}" for kind in ("traj", "weights", "time_scale")]
        kept.update({name: everything[name] for name in names if name in everything})
    save("golden_trajectories.safetensors", kept, {"cases": json.dumps(cases, separators=(",", ":"))})

    everything = load(f"{source}/training_traces.safetensors")
    manifest = json.load(open(f"{source}/training_traces.json"))["runs"]
    kept = {k: everything[k] for k in everything if k.startswith("model.")}
    for run in RUNS:
        for name, rows in (("noise", 0), ("loss", 0), ("lr", 0), ("weights", 1), ("time_scale", 1)):
            kept[f"run{run}.{name}"] = first(everything[f"run{run}.{name}"], ITERATIONS + rows)
        for name in ("grad0.weights", "grad0.time_scale"):
            kept[f"run{run}.{name}"] = everything[f"run{run}.{name}"]
    runs = json.dumps({f"run{run}": manifest[run] for run in RUNS}, separators=(",", ":"))
    save("golden_training.safetensors", kept, {"runs": runs})
    shutil.copyfile(f"{source}/torch_noise.safetensors", "torch_noise.safetensors")


main(sys.argv[1])
