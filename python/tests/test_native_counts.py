"""Numbers that are no counts are refused by the argument's name."""

import diffusers
import mixtures
import numpy as np
import pytest
import torch

import dyweight
from dyweight.diffusers import DyWeightScheduler


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seeds": [0], "batch": 0}, "batch is 0"),
        ({"seeds": [0], "batch": 1.5}, "batch is 1.5"),
        ({"seeds": [0], "batch": True}, "batch is True"),
        ({"seeds": [0.5]}, "a seed is 0.5"),
        ({"seeds": [-1]}, "a seed is -1"),
        ({"seeds": [2**64]}, "a seed is 18446744073709551616"),
    ],
)
def test_sampling(arguments, says):
    with pytest.raises(ValueError, match=says):
        dyweight.sample(mixtures.model(), "ddim", nfe=3, **arguments)


def test_numbers_of_numpy_and_torch_are_counts():
    plain = dyweight.noise([3], (2,))
    assert (dyweight.noise(np.array([3]), (2,)) == plain).all() and (dyweight.noise([torch.tensor(3)], (2,)) == plain).all()
    with pytest.raises(ValueError, match="a seed is 1.0"):
        dyweight.noise([1.0], (2,))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"seeds": [0.5]}, "a seed is 0.5"),
        ({"seeds": []}, "at least one"),
        ({"nfe": 4.5}, "nfe is 4.5|not iterable"),
        ({"nfe": [4, 5.5]}, "nfe is 5.5"),
        ({"nfe": [0]}, "nfe is 0"),
    ],
)
def test_comparing(arguments, says, tmp_path):
    with pytest.raises((ValueError, TypeError), match=says):
        dyweight.compare(mixtures.model(), ["ddim"], out=tmp_path, progress=False, **{"nfe": 4, **arguments})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"batch": 0}, "batch"), ({"seed": 0.5}, "seed=0.5"), ({"nfe": 4.5}, "nfe=4.5"), ({"micro_batch": 0}, "micro")],
)
def test_training(arguments, says):
    with pytest.raises((ValueError, TypeError), match=says):
        dyweight.train(mixtures.model(), progress=False, **{"nfe": 4, "iters": 1, **arguments})


def test_a_step_past_the_end():
    scheduler = DyWeightScheduler.from_preset("ms-coco-nfe8", diffusers.EulerDiscreteScheduler(beta_schedule="scaled_linear"))
    scheduler.set_timesteps(scheduler.calls)
    x = torch.randn(1, 4, 8, 8)
    for t in scheduler.timesteps:
        x = scheduler.step(scheduler.scale_model_input(x, t), t, x).prev_sample
    with pytest.raises(ValueError, match="begin anew with set_timesteps"):
        scheduler.step(x, t, x)
