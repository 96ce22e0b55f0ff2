"""Compacts the extracted coefficient records into official.json.

usage: python3 make.py coefficients.json > official.json
"""

import json
import sys

PLACES = {
    "cifar10": "cifar10",
    "ffhq": "ffhq",
    "afhqv2": "afhqv2",
    "imagenet64": "imagenet64",
    "lsun_bedroom_ldm": "lsun-bedroom",
    "ms_coco": "ms-coco",
    "flux.1-dev/ms_coco": "flux",
}
CREDIT = {
    "title": "DyWeight: Dynamic Gradient Weighting for Few-Step Diffusion Sampling",
    "authors": "Tong Zhao, Mingkun Lei, Liangyu Yuan, Yanming Yang, Chenxi Song, Yang Wang, Beier Zhu, Chi Zhang",
    "venue": "CVPR 2026",
    "code": "https://github.com/Westlake-AGI-Lab/DyWeight",
    "note": "Learned coefficients as released by the authors; times recomputed from them.",
}


def preset(record, taken):
    name = f"{PLACES[record['dataset']]}-nfe{record['nfe']}"
    training = record["training"]
    if name in taken:
        name = f"{name}-{training['loss_type']}"
    taken.add(name)
    return {
        "name": name,
        "source": record["file"],
        "coefficients": {
            "dataset": record["dataset"],
            "nfe": record["nfe"],
            "calls": record["solver_calls"],
            "steps": len(record["hybrid_weights"]),
            "afs": record["afs"],
            "window": record["window"],
            "schedule": {"kind": record["schedule_type"], "rho": record["schedule_rho"]},
            "guidance": {"kind": record["guidance"]["type"], "rate": record["guidance"]["rate"]},
            "weights": record["hybrid_weights"],
            "time_scale": record["t_scale"],
            "training": {
                "teacher": training.get("teacher"),
                "teacher_points": training.get("teacher_steps"),
                "loss": training.get("loss_type"),
                "max_order": training.get("max_order"),
            },
        },
        "grid": record["grid"],
        "realised_times": record["realised_times"],
        "network_times": record["network_times"],
        "provenance": record["provenance"],
    }


def main():
    records = json.load(open(sys.argv[1]))
    taken = set()
    lines = [json.dumps(preset(r, taken), separators=(",", ":")) for r in records]
    print('{"credit":' + json.dumps(CREDIT, ensure_ascii=False, separators=(",", ":")) + ',"presets":[')
    print(",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main()
