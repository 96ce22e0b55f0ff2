"""What learning adds to the pipeline it calls: `python tests/pipeline_overhead.py`.

Stable Diffusion's pipeline with latents of 4×64×64 and a network of a few thousand weights: a real one takes many times as
long, so the share printed here is more than anybody will see. Printed are the processor time of `few_steps` outside the
pipeline's own calls, and the largest memory of the process after sampling and after learning.
"""

import functools
import resource
import time

import diffusers
import made
import tiny
import torch

from dyweight import few_steps

inside = 0.0
plain = diffusers.StableDiffusionPipeline.__call__


class Timed(diffusers.StableDiffusionPipeline):
    @functools.wraps(plain)
    def __call__(self, *given, **named):
        global inside
        begun = time.process_time()
        try:
            return plain(self, *given, **named)
        finally:
            inside += time.process_time() - begun


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


if __name__ == "__main__":
    torch.set_num_threads(1)
    pipe = tiny.stable_diffusion(made.folder(), kind=Timed)
    call = {"height": 128, "width": 128}
    for _ in range(3):
        pipe("a", num_inference_steps=50, output_type="latent", **call)
    sampled, inside, begun = megabytes(), 0.0, time.process_time()
    found = few_steps(
        pipe, 5, ["a", "b"], pairs=4, validation_pairs=2, test_pairs=2, iterations=2, reference_steps=30, **call
    )
    whole = time.process_time() - begun
    each = 1e3 * inside / found.evaluations
    print(f"{found.evaluations} evaluations of {each:.1f} ms; outside the pipeline {100 * (whole - inside) / whole:.2f} % of {whole:.1f} s")
    print(f"memory: {sampled:.0f} MB after sampling, {megabytes():.0f} MB after learning")
