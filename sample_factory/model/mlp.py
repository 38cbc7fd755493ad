"""Fully connected layers, and a faster way to train small ones on a CPU.

All of this package's fully connected layers are an `Mlp`. Its parameters are those of an ordinary sequence
of Linear layers and activations. Trained on a CPU, narrow ones run as one operation in numpy, whose tanh and
matrix products of this size take half of torch's time.

Invariant: values and gradients are those of the ordinary sequence, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sample_factory.model.layers import nonlinearity

if TYPE_CHECKING:
    from sample_factory.config.config import Config

MAX_WIDTH = 256  # wider layers are arithmetic alone, which torch may spread over threads

Activation = Callable[[np.ndarray], np.ndarray]
Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Mlp(nn.Sequential):
    """Linear layers, an activation after each; passes its input through when there are none."""

    def __init__(self, cfg: Config, in_size: int, layer_sizes: Sequence[int]) -> None:
        layers: list[nn.Module] = []
        widths = [in_size, *layer_sizes]
        for size in layer_sizes:
            layers += [nn.Linear(in_size, size), nonlinearity(cfg)]
            in_size = size
        super().__init__(*layers)
        self._activation = type(layers[1]) if layers else None
        self._is_narrow = bool(layers) and max(widths) <= MAX_WIDTH

    def forward(self, x: Tensor) -> Tensor:
        """Outputs `[..., out]` for inputs `[..., in]`."""
        if not self._is_narrow or not trains_on_cpu(x):
            outputs: Tensor = super().forward(x)
            return outputs
        return _in_numpy(x, self._activation, *self.parameters())


def linear_side_by_side(x: Tensor, first: nn.Linear, second: nn.Linear) -> tuple[Tensor, Tensor]:
    """The outputs of two Linear layers on the same input."""
    if max(x.shape[-1], first.out_features + second.out_features) > MAX_WIDTH or not trains_on_cpu(x):
        return first(x), second(x)
    weight = torch.cat((first.weight, second.weight))
    bias = torch.cat((first.bias, second.bias))
    a, b = _in_numpy(x, nn.Identity, weight, bias).split((first.out_features, second.out_features), dim=-1)
    return a, b


def _in_numpy(x: Tensor, activation: type[nn.Module] | None, *parameters: Tensor) -> Tensor:
    flat: Tensor = NumpyMlp.apply(x.flatten(0, -2), activation, *parameters)
    return flat.unflatten(0, x.shape[:-1]) if x.ndim != 2 else flat


def trains_on_cpu(x: Tensor) -> bool:
    """Whether gradients of this will be wanted, on a CPU, by plain torch."""
    return (
        torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.ndim >= 2
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
    )


class NumpyMlp(torch.autograd.Function):
    """All layers as one operation; gradients of gradients are not defined."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: type[nn.Module], *parameters: Tensor) -> Tensor:
        """Outputs `[B, out]` for inputs `[B, in]`; `parameters` are weight, bias, weight, bias, ..."""
        arrays = [parameter.detach().numpy() for parameter in parameters]
        activate = ACTIVATIONS.get(activation, _identity)
        outputs = [x.detach().numpy()]
        for weight, bias in zip(arrays[::2], arrays[1::2], strict=True):
            y = outputs[-1] @ weight.T
            y += bias
            outputs.append(activate(y))
        ctx.outputs, ctx.weights, ctx.slope = outputs, arrays[::2], SLOPES.get(activation)
        return torch.from_numpy(outputs[-1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the input (if wanted) and of all parameters."""
        outputs, weights = ctx.outputs, ctx.weights
        ones = np.ones(len(outputs[0]), np.float32)
        error = gradient.numpy()
        gradients: list[Tensor] = []
        for i in range(len(weights) - 1, -1, -1):
            if ctx.slope is not None:
                slope = ctx.slope(outputs[i + 1], np.empty_like(outputs[i + 1]))
                error = np.multiply(error, slope, out=slope)
            gradients += [torch.from_numpy(ones @ error), torch.from_numpy(error.T @ outputs[i])]
            if i > 0 or ctx.needs_input_grad[0]:
                error = error @ weights[i]
        of_input = torch.from_numpy(error) if ctx.needs_input_grad[0] else None
        return of_input, None, *reversed(gradients)


def _identity(x: np.ndarray) -> np.ndarray:
    return x


def _tanh(x: np.ndarray) -> np.ndarray:
    return np.tanh(x, out=x)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=x)


def _elu(x: np.ndarray) -> np.ndarray:
    below = np.minimum(x, 0.0)
    np.maximum(x, 0.0, out=x)
    x += np.expm1(below, out=below)
    return x


def _slope_of_tanh(y: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.multiply(y, y, out=out)
    return np.subtract(1.0, out, out=out)


def _slope_of_relu(y: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.sign(y, out=out)


def _slope_of_elu(y: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.minimum(y, 0.0, out=out)
    out += 1.0
    return out


# Each works in place on the array it is given, which is the caller's own.
ACTIVATIONS: dict[type[nn.Module], Activation] = {nn.Tanh: _tanh, nn.ReLU: _relu, nn.ELU: _elu}
# Slopes as functions of the outputs: the inputs are gone. The second array takes them, and may be the first.
SLOPES: dict[type[nn.Module], Slope] = {
    nn.Tanh: _slope_of_tanh,
    nn.ReLU: _slope_of_relu,
    nn.ELU: _slope_of_elu,
}
