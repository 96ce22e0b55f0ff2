"""The k-diffusion sampler: its contract, real wrappers, parts of runs."""

import k_diffusion
import numpy as np
import pytest
import torch
from reference import Mixture, sample

from dyweight import Solver, preset
from dyweight.solver_file import SolverFile
from dyweight.k_diffusion import find_run, sample_dyweight


def _table():
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    return torch.cumprod(1 - betas, 0)


class Network(torch.nn.Module):
    """ε of a mixture at a timestep, as a wrapper calls it."""

    def __init__(self, alphas_cumprod):
        super().__init__()
        self.mixture, self.told = Mixture.random(12), []
        self.log_sigmas = ((1 - alphas_cumprod) / alphas_cumprod).sqrt().log().double()

    def forward(self, x, t):
        self.told.append(t)
        at, low = t.double(), t.long().clamp(max=998)
        log = self.log_sigmas[low] + (at - low) * (self.log_sigmas[low + 1] - self.log_sigmas[low])
        sigma = log.exp()[0]
        x = x.double() * (1 + sigma**2).sqrt()
        return (x - self.mixture(x, sigma)) / sigma


@pytest.mark.parametrize("quantize", [False, True])
def test_a_real_wrapper_of_a_discrete_model(quantize):
    """Parity through k-diffusion's own wrapper; the trap is its option to round the level to a timestep."""
    solver, alphas = preset("ms-coco-nfe16"), _table()
    network = Network(alphas)
    model = k_diffusion.external.DiscreteEpsDDPMDenoiser(network, alphas, quantize=quantize)
    noise = torch.randn(3, 3, 2, 2, dtype=torch.float64, generator=torch.manual_seed(0))
    ours = sample_dyweight(
        model, noise * solver.sigmas[0], torch.tensor(solver.run_sigmas), disable=True, solver=solver
    )
    exact = sample(solver, lambda x, level, _: network.mixture(x, level), noise.numpy())[-1]
    error = np.abs(ours.numpy() - exact).max()
    fractional = any(float(t[0]) % 1 for t in network.told)
    assert fractional != quantize
    assert (error < 1e-10) if not quantize else (error > 1e-5)


def test_a_flow_divides_by_the_level_it_told(record):
    """D = x − level·v, and level ≠ T: dividing by T would leave a slope of v·level/T."""
    flow = {"prediction": "velocity", "schedule": {"kind": "flow", "shift": 2.0}, "sigma_min": 0.0, "sigma_max": 1.0}
    solver = SolverFile({**record, **flow, "afs": False, "nfe": 4, "time_scale": [0.8, 0.8, 0.8, 0.8]})
    velocity = torch.randn(2, 3, dtype=torch.float64)
    x = torch.randn(2, 3, dtype=torch.float64)
    ours = sample_dyweight(lambda x, sigma: x - sigma[:, None] * velocity, x, disable=True, solver=solver)
    np.testing.assert_allclose(ours, x + (solver.times[-1] - solver.times[0]) * velocity, rtol=1e-13)


def test_state_and_slopes_do_not_lose_what_the_model_cannot_hold():
    solver, mixture = preset("cifar10-nfe5"), Mixture.random(12)
    noise = torch.randn(4, 3, 2, 2, generator=torch.manual_seed(1))

    def rounded(x, sigma):
        return mixture(x.double(), sigma.double()[0]).to(x.dtype)

    exact = sample(solver, lambda x, level, _: mixture(x, level), noise.double().numpy())[-1]
    half = sample_dyweight(rounded, (noise * 80).bfloat16(), disable=True, solver=solver)
    assert half.dtype == torch.bfloat16
    assert np.abs(half.double().numpy() - exact).max() < 0.15


def test_parts_of_a_run(record):
    solver = SolverFile(record)
    sigmas = torch.tensor(solver.run_sigmas)
    assert find_run(solver, sigmas) == (0, 4)
    assert find_run(solver, torch.tensor(solver.sigmas)) == (0, 4)
    assert find_run(solver, [*solver.run_sigmas[:-1], 0.0]) == (0, 4)
    assert find_run(solver, sigmas[2:]) == (2, 2)
    assert find_run(solver, sigmas[:3]) == (0, 2)
    assert find_run(solver, sigmas[1:3]) == (1, 1)
    karras = k_diffusion.sampling.get_sigmas_karras(4, 0.03, 12.0)
    for wrong in (karras, list(solver.sigmas[2:]), sigmas[:1], [], [*solver.run_sigmas, 0.0]):
        with pytest.raises(ValueError, match="not this solver's"):
            find_run(solver, wrong)


def test_a_run_from_the_middle_is_the_restated_one(record):
    solver, mixture = SolverFile(record), Mixture.random(12)
    x = torch.randn(2, 3, 2, 2, dtype=torch.float64)
    ours = sample_dyweight(lambda x, s: mixture(x, float(s[0])), x, solver.run_sigmas[1:], disable=True, solver=solver)
    theirs = sample(solver, lambda x, level, _: mixture(x, level), None, start=1, state=x.numpy())[-1]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
