"""Runs the solvers of diffusers on a mixture of three Gaussians and writes what they give: data of a test, and of docs/notation.md.

usage: diffusers_reference.py OUT.json        (needs torch and diffusers; made with diffusers 0.42.1)

Schedulers of diffusers are variance preserving or flows; a state of ours, x0 + sigma n, is theirs divided by
sqrt(1 + sigma^2). Sigmas are given to them as they are, so both sides work on one grid. Their states are f32 in part.
"""
import json
import sys

import torch
from diffusers import (DEISMultistepScheduler, DPMSolverMultistepScheduler, FlowMatchHeunDiscreteScheduler,
                       UniPCMultistepScheduler)

MIXTURE = [(-1.2, 0.15, 0.5), (0.3, 0.1, 0.2), (1.0, 0.2, 0.3)]  # mean, std, weight
STARTS = [-1.7, -0.6, 0.1, 0.8, 1.9]


def denoised(x, alpha, sigma):
    """E[x0 | x] for x = alpha x0 + sigma n."""
    mean, std, weight = (torch.tensor(column, dtype=torch.float64) for column in zip(*MIXTURE))
    x = x.reshape(-1, 1).double()
    variance = alpha**2 * std**2 + sigma**2
    logit = weight.log() - 0.5 * variance.log() - (x - alpha * mean) ** 2 / (2 * variance)
    posterior = mean + alpha * std**2 / variance * (x - alpha * mean)
    return (logit.softmax(1) * posterior).sum(1).reshape(-1, 1, 1, 1)


def karras(steps):
    return [(8 ** (1 / 7) + i / steps * (0.02 ** (1 / 7) - 8 ** (1 / 7))) ** 7 for i in range(steps + 1)]


def flow(steps, start=0.95):
    return [start - (start - 0.05) * i / steps for i in range(steps + 1)]


def run(scheduler, sigmas, is_flow, twice=False):
    """The endpoints; `twice` for Heun, which visits every inner sigma twice."""
    scheduler.set_timesteps(len(sigmas) - 1)
    if twice:
        sigmas = [sigmas[0]] + [s for s in sigmas[1:-1] for _ in (0, 1)] + [sigmas[-1]]
    steps = len(sigmas) - 1
    scheduler.sigmas = torch.tensor(sigmas, dtype=torch.float64)
    scheduler.timesteps = torch.arange(steps, dtype=torch.float64)
    scheduler.num_inference_steps = steps
    scheduler._step_index, scheduler._begin_index = None, 0
    x = torch.tensor(STARTS, dtype=torch.float64).reshape(-1, 1, 1, 1)
    sigma = sigmas[0]
    x = x * sigma if is_flow else x * sigma / (1 + sigma**2) ** 0.5
    for i in range(steps):
        sigma = sigmas[i]
        if is_flow:
            out = (x.double() - denoised(x, 1 - sigma, sigma)) / sigma
        else:
            scale = 1 / (1 + sigma**2) ** 0.5
            out = denoised(x, scale, scale * sigma)
        x = scheduler.step(out, scheduler.timesteps[i], x).prev_sample
    sigma = sigmas[-1]
    return (x if is_flow else x * (1 + sigma**2) ** 0.5).double().flatten().tolist()


def multistep(kind, is_flow, **options):
    common = dict(prediction_type="flow_prediction", use_flow_sigmas=True) if is_flow else dict(prediction_type="sample")
    return kind(final_sigmas_type="sigma_min", thresholding=False, **common, **options)


UNIPC = {"predict_x0": True, "solver_type": "bh2"}


def differences():
    """Where the two differ on purpose: our solver and grid with their result."""
    for steps in (5, 10, 18):
        sigmas = [1 - i / steps for i in range(steps + 1)]
        yield "heun", None, True, sigmas, run(FlowMatchHeunDiscreteScheduler(), sigmas, True, twice=True)
    for is_flow in (False, True):
        sigmas = flow(2) if is_flow else karras(2)
        yield "dpmpp", 3, is_flow, sigmas, run(
            multistep(DPMSolverMultistepScheduler, is_flow, solver_order=3), sigmas, is_flow)
        yield "unipc", 3, is_flow, sigmas, run(
            multistep(UniPCMultistepScheduler, is_flow, solver_order=3, **UNIPC), sigmas, is_flow)
    for order in (2, 3):
        # Theirs moves a first sigma of 1 to 1 - 1e-6.
        sigmas, scheduler = flow(10, 1.0), multistep(UniPCMultistepScheduler, True, solver_order=order, **UNIPC)
        yield "unipc", order, True, sigmas, run(scheduler, [1 - 1e-6] + sigmas[1:], True)
    for order in (2, 3):
        for steps in (10, 18):
            scheduler = DEISMultistepScheduler(prediction_type="sample", solver_order=order)
            yield "deis-tab", order, False, karras(steps), run(scheduler, karras(steps), False)


def main(out):
    cases = []
    for is_flow in (False, True):
        for name, kind, orders in (("dpmpp", DPMSolverMultistepScheduler, (1, 2, 3)),
                                   ("unipc", UniPCMultistepScheduler, (1, 2, 3))):
            for order in orders:
                for steps in (2, 4, 10, 14, 15, 18):
                    sigmas = flow(steps) if is_flow else karras(steps)
                    extra = {} if name == "dpmpp" else UNIPC
                    scheduler = multistep(kind, is_flow, solver_order=order, **extra)
                    result = run(scheduler, sigmas, is_flow)
                    cases.append(dict(solver=name, order=order, flow=is_flow, sigmas=sigmas, result=result))
    # Only DPM-Solver++ of theirs can start from pure noise itself.
    for order in (1, 2, 3):
        scheduler, sigmas = multistep(DPMSolverMultistepScheduler, True, solver_order=order), flow(10, 1.0)
        result = run(scheduler, sigmas, True)
        cases.append(dict(solver="dpmpp", order=order, flow=True, sigmas=sigmas, result=result))
    keys = ("solver", "order", "flow", "sigmas", "result")
    differ = [dict(zip(keys, case)) for case in differences()]
    json.dump(dict(mixture=MIXTURE, starts=STARTS, cases=cases, differences=differ), open(out, "w"))


if __name__ == "__main__":
    main(sys.argv[1])
