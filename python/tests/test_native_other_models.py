"""What people bring along: modules in half precision, compiled, under autocast, with outputs of diffusers and without derivatives."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dyweight.model import Model

SHAPE = (4, 8, 8)


class Net(torch.nn.Module):
    def __init__(self, channels=4, out=4):
        super().__init__()
        self.conv, self.time = torch.nn.Conv2d(channels, out, 3, padding=1), torch.nn.Linear(1, out)

    def forward(self, x, t):
        return self.conv(x) + self.time(t.to(x.dtype)[:, None])[:, :, None, None]


@dataclass
class Output:
    sample: torch.Tensor


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


def asked(fn, shape=SHAPE, prediction="eps", **options):
    """Prediction and gradients, as the compiled part asks for them."""
    model = Model(fn, shape, prediction, (0.03, 14.6), **options)
    wire = model._arrays.wire
    x = np.random.default_rng(0).standard_normal((2, *shape)).astype(wire)
    levels = np.array([0.7, 2.0])
    value, pullback = model._answer_with_pullback(bytearray(x.tobytes()), bytearray(levels.tobytes()), None)
    to_x, to_levels = pullback(bytearray(np.ones_like(x).tobytes()))
    assert pullback(bytearray(np.ones_like(x).tobytes())) == (to_x, to_levels), "asked again"
    found = [np.frombuffer(value, wire), np.frombuffer(to_x, wire), np.frombuffer(to_levels)]
    assert [part.size for part in found] == [x.size, x.size, 2]
    return found


def same(found, wanted, tolerance=0.0):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_what_a_network_of_diffusers_answers_with_is_understood(net):
    wanted = asked(net)
    for fn in (
        lambda x, t: (net(x, t), "more"),
        lambda x, t: Output(net(x, t)),
        lambda x, t: {"sample": net(x, t)},
    ):
        same(asked(fn), wanted)
    with pytest.raises(TypeError, match="answered with dict"):
        asked(lambda x, t: {"other": net(x, t)})


def test_memory_formats_and_compilers_change_nothing(net):
    wanted = asked(net)
    same(asked(torch.compile(net, backend="eager")), wanted, 1e-5)
    same(asked(lambda x, t: torch.utils.checkpoint.checkpoint(net, x, t, use_reentrant=False)), wanted, 1e-5)
    same(asked(net.to(memory_format=torch.channels_last)), wanted, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast_are_near(net, dtype):
    wanted = asked(net)

    def cast(x, t):
        with torch.autocast("cpu", dtype):
            return net(x, t)

    same(asked(cast), wanted, 0.1)
    same(asked(Net.to(net, dtype)), wanted, 0.1)


def test_derivatives_are_there_whatever_is_switched_off_outside(net):
    wanted = asked(net)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            same(asked(net), wanted)


def test_weights_and_functions_that_forbid_derivatives_are_refused(net):
    with torch.inference_mode():
        stuck = Net()
    with pytest.raises(ValueError, match="made under torch.inference_mode"):
        asked(stuck)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        asked(torch.inference_mode()(net.forward))


@pytest.mark.parametrize("shape", [(16, 3), (3, 2, 4, 4)])
def test_samples_of_other_dimensions(shape):
    asked(lambda x, t: x * t.reshape(-1, *[1] * len(shape)), shape)


def test_a_network_that_predicts_variances_is_told_what_to_do():
    with pytest.raises(ValueError, match=r"answer with the first half, output\[:, :4\]"):
        asked(Net(out=8))


def test_a_network_without_a_derivative_in_t_is_said_to_have_none_once(net):
    table = torch.nn.Embedding(1000, 4)
    rounded = Model(lambda x, t: net.conv(x) + table(t.long())[:, :, None, None], SHAPE, "eps", (0.03, 14.6))
    x = bytearray(np.ones((1, *SHAPE), np.float32).tobytes())

    def gradient():
        rounded._answer_with_pullback(x, bytearray(np.ones(1).tobytes()), None)[1](x)

    with pytest.warns(UserWarning, match="no derivative in t.*no_time_scale=True"):
        gradient()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient()
        asked(net)


def test_a_network_in_training_mode_is_noticed():
    for part, what in ((torch.nn.Dropout(0.1), "dropout"), (torch.nn.BatchNorm2d(4), "batch normalisation")):
        network = Net()
        network.part = part
        with pytest.warns(UserWarning, match=f"training mode, where {what}"):
            Model(network, SHAPE, "eps", (0.03, 14.6))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Model(network.eval(), SHAPE, "eps", (0.03, 14.6))
