"""Narrow fully connected layers compute in numpy what torch would."""

import numpy as np
import pytest
import torch
from torch import nn

from sample_factory.model import mlp
from sample_factory.model.mlp import MAX_WIDTH, Mlp, linear_side_by_side


def gradients_of(outputs, weights, tensors):
    return torch.autograd.grad((outputs * weights).sum(), tensors)


@pytest.fixture
def calls(monkeypatch):
    """Which activations were used in numpy."""
    seen = []
    original = mlp.NumpyMlp.forward

    def forward(ctx, x, activation, *parameters):
        seen.append(activation)
        return original(ctx, x, activation, *parameters)

    monkeypatch.setattr(mlp.NumpyMlp, "forward", staticmethod(forward))
    return seen


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "elu"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5)], ids=["rows", "trajectories"])
def test_values_and_gradients_are_those_of_the_layers_one_by_one(make_cfg, calls, nonlinearity, shape):
    network = Mlp(make_cfg(nonlinearity=nonlinearity), 5, [16, 8])
    x = torch.randn(shape, requires_grad=True)
    weights = torch.randn(*shape[:-1], 8)
    outputs = network(x)
    assert len(calls) == 1
    expected = nn.Sequential(*network)(x)
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-6)
    tensors = [x, *network.parameters()]
    for got, wanted in zip(
        gradients_of(outputs, weights, tensors), gradients_of(expected, weights, tensors), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_two_layers_side_by_side_are_the_two_layers(calls):
    first, second = nn.Linear(6, 3), nn.Linear(6, 1)
    x = torch.randn(4, 5, 6, requires_grad=True)
    a, b = linear_side_by_side(x, first, second)
    assert len(calls) == 1
    torch.testing.assert_close(a, first(x))
    torch.testing.assert_close(b, second(x))
    tensors = [x, *first.parameters(), *second.parameters()]
    got = torch.autograd.grad(a.square().sum() + b.square().sum(), tensors)
    wanted = torch.autograd.grad(first(x).square().sum() + second(x).square().sum(), tensors)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_wide_layers_half_precision_and_inference_are_left_to_torch(make_cfg, calls):
    narrow, wide = Mlp(make_cfg(), 5, [8]), Mlp(make_cfg(), MAX_WIDTH + 1, [8])
    wide(torch.randn(2, MAX_WIDTH + 1))
    with torch.no_grad():
        narrow(torch.randn(2, 5))
    with torch.autocast("cpu", torch.bfloat16):
        narrow(torch.randn(2, 5))
    assert calls == []


def test_without_layers_the_input_passes_through(make_cfg):
    x = torch.randn(2, 5)
    assert Mlp(make_cfg(), 5, [])(x) is x


def test_the_input_is_left_alone(make_cfg):
    x = torch.randn(3, 5)
    before = x.clone()
    Mlp(make_cfg(nonlinearity="relu"), 5, [4, 4])(x).sum().backward()
    assert np.array_equal(x.numpy(), before.numpy())
