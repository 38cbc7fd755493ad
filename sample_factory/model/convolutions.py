"""Convolutions with an activation after each, and a faster way to train them on a CPU.

`Convolutions` is what plain image encoders are made of; its parameters are those of an ordinary sequence.
Trained on a CPU it is one operation in torch's graph with its own backward pass (docs/decisions/014): a large
batch goes through in pieces that stay in a core's caches from the bytes of the images to the last layer,
activations are computed in place, and gradients of weights add up without passing through the graph.

Invariant: values and gradients are those of the ordinary sequence, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sample_factory.model.mlp import trains_on_cpu

PIECE_SIZE = 128  # images that go through all layers together
_InPlace = Callable[[Tensor], Tensor]


class Convolutions(nn.Sequential):
    """Conv2d layers without padding, an activation after each, all outputs of an image in one row."""

    def __init__(self, layers: Sequence[nn.Module], piece_size: int = PIECE_SIZE) -> None:
        """`layers` are convolution, activation, convolution, activation, ..., one kind of activation."""
        super().__init__(*layers)
        self._piece_size = piece_size

    def forward(self, images: Tensor, scale: float = 1.0) -> Tensor:
        """Features `[B, C' * H' * W']` of images `[B, C, H, W]` in floats or bytes, divided by `scale`."""
        parameters: list[Tensor] = list(self.parameters())
        if scale != 1.0:  # fewer numbers than the pixels
            parameters[0] = parameters[0] / scale
        activation = type(self[1])
        strides = [layer.stride[0] for layer in self if isinstance(layer, nn.Conv2d)]
        if activation in _IN_PLACE and trains_on_cpu(parameters[0]):
            plan = _Plan(strides, activation, self._piece_size)
            features: Tensor = CpuConvolutions.apply(images, plan, *parameters)
            return features
        x = images.to(parameters[0].dtype)
        for weight, bias, stride in zip(parameters[::2], parameters[1::2], strides, strict=True):
            x = self._activate(F.conv2d(x, weight, bias, stride), activation)
        return x.flatten(1)

    def _activate(self, x: Tensor, activation: type[nn.Module]) -> Tensor:
        """In place where nobody will need the inputs, and plainly where operations are recorded."""
        is_recorded = x.requires_grad or torch.jit.is_tracing() or torch.compiler.is_compiling()
        if activation in _IN_PLACE and not is_recorded:
            return _IN_PLACE[activation](x)
        activated: Tensor = self[1](x)
        return activated


class _Plan(NamedTuple):
    """What the operation needs to know besides its tensors."""

    strides: Sequence[int]
    activation: type[nn.Module]
    piece_size: int


class CpuConvolutions(torch.autograd.Function):
    """All layers as one operation; gradients of gradients and of bytes are not defined."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, plan: _Plan, *parameters: Tensor) -> Tensor:
        """`parameters` are weight, bias, weight, bias, ..."""
        activate = _IN_PLACE[plan.activation]
        features: Tensor | None = None
        pieces: list[list[Tensor]] = []
        for start in range(0, len(images), plan.piece_size):
            x = images[start : start + plan.piece_size].to(torch.float32)
            outputs: list[Tensor] = []
            for weight, bias, stride in zip(parameters[::2], parameters[1::2], plan.strides, strict=True):
                x = activate(F.conv2d(x, weight, bias, stride))
                outputs.append(x)
            pieces.append(outputs)
            if features is None:
                features = x.new_empty(len(images), x[0].numel())
            features[start : start + len(x)].view(x.shape).copy_(x)
        assert features is not None
        ctx.images, ctx.plan, ctx.pieces, ctx.weights = images, plan, pieces, parameters[::2]
        return features

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the images (if wanted) and of all parameters."""
        size, wants_images = ctx.plan.piece_size, ctx.needs_input_grad[0]
        of_images: list[Tensor] = []
        totals: list[Tensor] = []
        for number, outputs in enumerate(ctx.pieces):
            rows = slice(number * size, (number + 1) * size)
            error = torch.empty_like(outputs[-1]).copy_(gradient[rows].view(outputs[-1].shape))
            # Bytes are made floats once more: that is cheaper than to keep them.
            inputs = [ctx.images[rows].to(torch.float32), *outputs]
            below, gradients = _backward_through(ctx.plan, ctx.weights, inputs, error, wants_images)
            if below is not None:
                of_images.append(below)
            totals = gradients if not totals else [a.add_(b) for a, b in zip(totals, gradients, strict=True)]
        return torch.cat(of_images) if wants_images else None, None, *totals


def _backward_through(
    plan: _Plan, weights: Sequence[Tensor], outputs: Sequence[Tensor], error: Tensor, wants_images: bool
) -> tuple[Tensor | None, list[Tensor]]:
    """Gradients of one piece: of its images, if wanted, and of weight, bias, weight, bias, ...

    `outputs` are the images and what each layer made of them; `error`, of the last of them, is overwritten.
    """
    gradients: list[Tensor] = []
    for i in range(len(weights) - 1, -1, -1):
        _SLOPES[plan.activation](error, outputs[i + 1])
        below, of_weight, of_bias = torch.ops.aten.convolution_backward(
            error,
            outputs[i],
            weights[i],
            bias_sizes=[len(weights[i])],
            stride=[plan.strides[i]] * 2,
            padding=[0, 0],
            dilation=[1, 1],
            transposed=False,
            output_padding=[0, 0],
            groups=1,
            output_mask=[i > 0 or wants_images, True, True],
        )
        gradients += [of_bias, of_weight]
        error = below
    return error, gradients[::-1]


def _elu_(x: Tensor) -> Tensor:
    """As torch's, but for the last digit near 0: exp is so much faster than expm1."""
    return torch.maximum(x, x.clamp(max=0.0).exp_().sub_(1.0), out=x)


def _slope_of_relu(error: Tensor, outputs: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(error, outputs, 0, grad_input=error)


def _slope_of_elu(error: Tensor, outputs: Tensor) -> None:
    torch.ops.aten.elu_backward.grad_input(error, 1.0, 1.0, 1.0, True, outputs, grad_input=error)


def _slope_of_tanh(error: Tensor, outputs: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(error, outputs, grad_input=error)


_IN_PLACE: dict[type[nn.Module], _InPlace] = {nn.ReLU: torch.relu_, nn.ELU: _elu_, nn.Tanh: torch.tanh_}
# Each multiplies the errors, in place, by the slope as a function of the outputs: the inputs are gone.
_SLOPES: dict[type[nn.Module], Callable[[Tensor, Tensor], None]] = {
    nn.ReLU: _slope_of_relu,
    nn.ELU: _slope_of_elu,
    nn.Tanh: _slope_of_tanh,
}
