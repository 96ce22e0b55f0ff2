"""What the campaign kills of the Python package: `train` on a function, and `few_steps` on a tiny pipeline.

python tests/crash/job.py train|few-steps      leaves everything in ./run
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python" / "tests"))


def train():
    import mixtures

    import dyweight

    run = {"iters": 60, "batch": 16, "validation": 64, "validate_every": 5, "teacher_nfe": 15, "progress": False}
    dyweight.train(mixtures.model(), nfe=5, out="run/solver.json", cache="run/cache", resume=True, **run)


def few_steps():
    import tiny
    import torch

    import dyweight

    torch.set_num_threads(1)
    pipe = tiny.stable_diffusion(pathlib.Path("tokenizer"))
    run = {"pairs": 4, "validation_pairs": 2, "test_pairs": 2, "iterations": 2, "reference_steps": 12, "overwrite": True}
    size = {"height": 16, "width": 16, "guidance_scale": 3.0, "progress": False}
    dyweight.few_steps(pipe, 4, ["a", "b"], out="run/solver.json", cache="run/cache", **run, **size)


{"train": train, "few-steps": few_steps}[sys.argv[1]]()
