"""Training a small network in numpy: forward and backward pass without torch's graph.

Of an SGD step on 2048 rows of CartPole a third was arithmetic; the rest was torch's cost per operation, and
fresh memory for the outputs of hidden layers. Used by the learner for networks that also act in numpy
(`numpy_policy`); everything else is differentiated by torch.

Invariant: weights and gradients are the torch parameters' own memory; gradients are torch's, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sample_factory.model.actor_critic import ActorCritic
from sample_factory.model.encoders import MlpEncoder
from sample_factory.model.mlp import ACTIVATIONS, MAX_WIDTH, SLOPES
from sample_factory.model.numpy_policy import NumpyPolicy


@dataclass(frozen=True)
class _Linear:
    """Weights `[outputs, inputs]` and biases of a layer, and the gradients of both."""

    weight: np.ndarray
    bias: np.ndarray
    of_weight: np.ndarray
    of_bias: np.ndarray

    @classmethod
    def of(cls, layer: nn.Linear) -> _Linear:
        """The memory of a torch layer."""
        weight, bias = layer.weight, layer.bias
        return cls(weight.detach().numpy(), bias.detach().numpy(), _gradient_of(weight), _gradient_of(bias))


class _Hidden:
    """A hidden layer, with memory that every pass uses again: so it stays in the processor's cache."""

    def __init__(self, linear: nn.Linear, activation: type[nn.Module]):
        self.linear = _Linear.of(linear)
        self._activate, self._slope = ACTIVATIONS[activation], SLOPES[activation]
        self._memory = np.empty((2, 0, linear.out_features), np.float32)
        self.make_room(0)

    def make_room(self, num_rows: int) -> None:
        """For the outputs `[B, outputs]` of so many rows, and for the gradient of these."""
        if num_rows > self._memory.shape[1]:
            self._memory = np.empty((2, num_rows, self._memory.shape[2]), np.float32)
        self.outputs, self.error = self._memory[:, :num_rows]

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        """The outputs."""
        np.matmul(inputs, self.linear.weight.T, out=self.outputs)
        self.outputs += self.linear.bias
        return self._activate(self.outputs)

    def backward(self, inputs: np.ndarray, ones: np.ndarray) -> np.ndarray:
        """Gradients of the layer from `error`; returns that of the sums before the activation."""
        slope = self._slope(self.outputs, self.outputs)  # by now, nobody needs the outputs any more
        of_sums = np.multiply(self.error, slope, out=slope)
        np.matmul(of_sums.T, inputs, out=self.linear.of_weight)
        np.matmul(ones, of_sums, out=self.linear.of_bias)
        return of_sums


class NumpyTraining:
    """Passes through one network, each `backward` after its `forward`."""

    def __init__(self, model: ActorCritic):
        """Takes a model for which `fits` is true and whose parameters have a `grad` to be written to."""
        linears = [module for module in model.actor.modules() if isinstance(module, nn.Linear)]
        kinds = [type(module) for module in model.actor.modules() if type(module) in ACTIVATIONS]
        self._hidden = [_Hidden(linear, kind) for linear, kind in zip(linears, kinds, strict=True)]
        self._action_head = _Linear.of(model.action_head.linear)
        self._value_head = _Linear.of(model.value_head)
        # Where deviations do not depend on the observation; no numbers elsewhere.
        log_stddev = model.action_head.log_stddev
        self._log_stddev = np.empty(0, np.float32) if log_stddev is None else log_stddev.detach().numpy()
        self._of_log_stddev = np.empty(0, np.float32) if log_stddev is None else _gradient_of(log_stddev)
        self._rows = np.empty((0, 0), np.float32)
        self._ones = np.empty(0, np.float32)

    @staticmethod
    def fits(model: ActorCritic) -> bool:
        """Whether a network also acts in numpy, is on a CPU, and so narrow that threads would not help."""
        encoder = model.actor.encoder
        return (
            isinstance(encoder, MlpEncoder)  # others need not know their observations
            and NumpyPolicy.fits(model, encoder.obs_space)
            and all(max(parameter.shape) <= MAX_WIDTH for parameter in model.parameters())
            and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())
        )

    def forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Action parameters `[K, B]` and normalised values `[B]` of prepared observations `[B, D]`."""
        num_rows = len(rows)
        if num_rows != len(self._ones):
            self._ones = np.ones(num_rows, np.float32)
            for layer in self._hidden:
                layer.make_room(num_rows)
        self._rows = x = rows
        for layer in self._hidden:
            x = layer.forward(x)
        outputs = self._head_weights() @ x.T  # both heads at once; rows of parameters are what losses work on
        outputs += np.concatenate((self._action_head.bias, self._value_head.bias))[:, None]
        deviations = np.broadcast_to(self._log_stddev[:, None], (len(self._log_stddev), num_rows))
        return np.concatenate((outputs[:-1], deviations)), outputs[-1]

    def backward(self, of_params: np.ndarray, of_values: np.ndarray) -> None:
        """Writes the gradients of all parameters, given those of what `forward` returned."""
        num_computed, ones = len(self._action_head.bias), self._ones
        of_outputs = np.concatenate((of_params[:num_computed], of_values[None]))
        inputs = [self._rows, *(layer.outputs for layer in self._hidden)]
        of_weights, of_biases = of_outputs @ inputs[-1], of_outputs @ ones
        self._action_head.of_weight[...], self._value_head.of_weight[...] = of_weights[:-1], of_weights[-1:]
        self._action_head.of_bias[...], self._value_head.of_bias[...] = of_biases[:-1], of_biases[-1:]
        self._of_log_stddev[...] = of_params[num_computed:] @ ones
        error, weights = of_outputs.T, self._head_weights()
        for layer, layer_inputs in zip(reversed(self._hidden), reversed(inputs[:-1]), strict=True):
            np.matmul(error, weights, out=layer.error)
            error, weights = layer.backward(layer_inputs, ones), layer.linear.weight

    def _head_weights(self) -> np.ndarray:
        return np.concatenate((self._action_head.weight, self._value_head.weight))


def _gradient_of(parameter: Tensor) -> np.ndarray:
    assert parameter.grad is not None
    return parameter.grad.numpy()
