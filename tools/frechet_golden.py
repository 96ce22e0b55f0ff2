"""Fréchet distances by pytorch-fid's own code, for the test of ours.

usage: frechet_golden.py crates/dyweight-study/tests/data/frechet_golden.json      (needs pytorch-fid, scipy, numpy)

The distances are those of `pytorch_fid.fid_score.calculate_frechet_distance` (Maximilian Seitzer, Apache-2.0), version 0.3.0.
Features are made by a formula in 32-bit integers and floats that the test repeats bit for bit, so none are stored.
"""
import json, sys

import numpy as np
from pytorch_fid.fid_score import calculate_frechet_distance


def mix(z):
    """The finaliser of MurmurHash3."""
    z = z.astype(np.uint32)
    z = (z ^ (z >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    z = (z ^ (z >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return z ^ (z >> np.uint32(16))


def features(salt, rows, dims, slope):
    index = np.arange(rows * dims, dtype=np.uint32) + np.uint32(salt * 0x9E3779B1 & 0xFFFFFFFF)
    u = ((mix(index) >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)).reshape(rows, dims)
    mixed = u + np.float32(0.5) * np.roll(u, -1, axis=1)
    return mixed * (np.float32(1) + np.float32(slope) * np.arange(dims, dtype=np.float32))


def statistics(x):
    return np.mean(x, axis=0, dtype=np.float64), np.cov(x.astype(np.float64), rowvar=False)


def main():
    cases = []
    for rows, dims, slope in [(300, 64, 0.0), (300, 64, 0.015625), (1000, 16, 0.25), (80, 64, 0.03125)]:
        a, b = statistics(features(1, rows, dims, 0.0)), statistics(features(2, 400, dims, slope))
        value = float(calculate_frechet_distance(*a, *b))
        cases.append({"rows": rows, "dims": dims, "slope": slope, "distance": value})
    credit = "pytorch-fid 0.3.0 (Maximilian Seitzer, Apache-2.0), calculate_frechet_distance; made by tools/frechet_golden.py"
    with open(sys.argv[1], "w") as out:
        json.dump({"credit": credit, "reference_rows": 400, "cases": cases}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
