"""Convolutions trained in pieces on a CPU compute what torch's layers compute one by one."""

import pytest
import torch
from torch import nn

from sample_factory.model import convolutions
from sample_factory.model.convolutions import Convolutions

ACTIVATIONS = [nn.ReLU, nn.ELU, nn.Tanh]


def make(activation, piece_size=4):
    layers = [nn.Conv2d(3, 8, 4, 2), activation(), nn.Conv2d(8, 6, 3, 2), activation()]
    return Convolutions(layers, piece_size)


@pytest.fixture
def calls(monkeypatch):
    """How many images went through the operation of our own."""
    seen = []
    original = convolutions.CpuConvolutions.forward

    def forward(ctx, images, plan, *parameters):
        seen.append(len(images))
        return original(ctx, images, plan, *parameters)

    monkeypatch.setattr(convolutions.CpuConvolutions, "forward", staticmethod(forward))
    return seen


def layer_by_layer(network, images):
    return nn.Sequential(*network)(images).flatten(1)


def gradients(outputs, weights, tensors):
    return torch.autograd.grad((outputs * weights).sum(), tensors)


def assert_all_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("batch", [4, 11], ids=["one piece", "uneven pieces"])
def test_values_and_all_gradients_are_those_of_the_layers(calls, activation, batch):
    network = make(activation)
    images = torch.randn(batch, 3, 14, 18, requires_grad=True)
    outputs = network(images)
    assert calls == [batch]
    expected = layer_by_layer(network, images)
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)
    weights, tensors = torch.randn_like(expected), [images, *network.parameters()]
    assert_all_close(gradients(outputs, weights, tensors), gradients(expected, weights, tensors))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_bytes_are_divided_by_the_scale(calls, activation, memory_format):
    network = make(activation)
    pixels = torch.randint(0, 256, (7, 3, 14, 18), dtype=torch.uint8).contiguous(memory_format=memory_format)
    outputs = network(pixels, 255.0)
    assert calls == [7]
    expected = layer_by_layer(network, pixels.float() / 255.0)
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-5)
    weights, tensors = torch.randn_like(expected), list(network.parameters())
    assert_all_close(gradients(outputs, weights, tensors), gradients(expected, weights, tensors))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_acting_gives_the_same_values_and_leaves_its_images_alone(calls, activation):
    network = make(activation)
    pixels = torch.randint(0, 256, (5, 3, 14, 18), dtype=torch.uint8)
    images = pixels / 255.0
    before = images.clone()
    with torch.no_grad():
        torch.testing.assert_close(network(pixels, 255.0), layer_by_layer(network, images))
        torch.testing.assert_close(network(images), layer_by_layer(network, images))
    assert calls == []
    assert torch.equal(images, before)


def test_what_a_pass_keeps_is_gone_with_its_outputs():
    """A cycle of references would leave hundreds of megabytes to Python's garbage collector."""
    import gc
    import weakref

    network = make(nn.ReLU)
    gc.collect()
    gc.disable()
    try:
        outputs = network(torch.randn(9, 3, 14, 18))
        kept = weakref.ref(outputs.grad_fn.pieces[0][0])
        outputs.sum().backward()
        del outputs
        assert kept() is None
    finally:
        gc.enable()


def test_half_precision_is_left_to_torch(calls):
    network = make(nn.ELU)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = network(torch.randint(0, 256, (2, 3, 14, 18), dtype=torch.uint8), 255.0)
    assert calls == []
    assert outputs.shape == (2, 6 * 2 * 3)
