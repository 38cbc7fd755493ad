"""Acting with a small network in numpy: the function of `ActorCritic.act` without torch's cost per operation.

A vector of CartPoles costs less to step than torch needs to find out what to do with 32 x 64 numbers.
Networks that are fully connected layers on one vector, with one discrete or one real-valued action, are a
dozen calls of numpy. Everything else acts through torch.

Invariant: weights are the torch network's own memory, so loading it is loading this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import nn

from sample_factory.model.actor_critic import ActorCritic, SharedActorCritic
from sample_factory.model.cores import IdentityCore
from sample_factory.model.encoders import MlpEncoder
from sample_factory.model.mlp import ACTIVATIONS, Activation
from sample_factory.rl.action_spaces import action_heads
from sample_factory.rl.distributions import MAX_STDDEV, MIN_STDDEV
from sample_factory.rl.normalisation import RunningMeanStd

Layer = tuple[np.ndarray, np.ndarray, Activation]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class NumpyPolicy:
    """A network and a stream of random numbers."""

    def __init__(self, model: ActorCritic, seed: int):
        """Takes a model for which `fits` is true."""
        self._layers = _layers_of(model)
        self._heads = [_arrays_of(model.action_head.linear), _arrays_of(model.value_head)]
        log_stddev = model.action_head.log_stddev
        self._log_stddev = None if log_stddev is None else log_stddev.detach().numpy()
        self._mean, self._scale = model.observations.main_mean_and_scale()
        self._obs_normalizer = model.obs_normalizers.get("obs")
        self._returns_normalizer = model.returns_normalizer
        self.is_discrete = isinstance(model.action_space, spaces.Discrete)
        self.num_params = len(self._heads[0][1]) + (0 if self._log_stddev is None else len(self._log_stddev))
        self.num_actions = 1 if self.is_discrete else self.num_params // 2
        self._rng = np.random.default_rng(seed)
        self.refresh()

    @staticmethod
    def fits(model: ActorCritic, obs_space: spaces.Dict) -> bool:
        """Whether a network is simple enough."""
        trunk = model.actor
        heads = action_heads(model.action_space)
        return (
            type(model) is SharedActorCritic
            and list(obs_space.spaces) == ["obs"]
            and obs_space["obs"].dtype == np.float32
            and len(obs_space["obs"].shape or ()) == 1
            and type(trunk.encoder) is MlpEncoder
            and type(trunk.core) is IdentityCore
            and isinstance(model.action_space, spaces.Discrete | spaces.Box)
            and len(heads) == 1
            and model.action_head.tanh_scale == 0.0
            and all(type(layer) in (nn.Linear, *ACTIVATIONS) for layer in _modules_of(model))
        )

    def refresh(self) -> None:
        """Takes over what is not the network's own memory, after weights were loaded."""
        weights, biases = zip(*self._heads, strict=True)
        self._head_weights = np.concatenate(weights).T  # both heads as one layer: half the calls
        self._head_biases = np.concatenate(biases)
        self._obs_shift, self._obs_factor, self._obs_clip = _constants(self._obs_normalizer)
        self._value_shift, self._value_factor, self._value_clip = _constants(self._returns_normalizer)

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Actions, their parameters, log-probability and value `[B, columns]` for observations `[B, D]`."""
        return act_together([(self, 0, len(obs))], obs)

    def forward(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Action parameters `[B, K]` and values `[B]` in the units of the rewards."""
        x = obs
        if self._mean != 0.0 or self._scale != 1.0:
            x = (x - np.float32(self._mean)) / np.float32(self._scale)
        if self._obs_normalizer is not None:
            x = x - self._obs_shift
            x *= self._obs_factor
            _clip(x, self._obs_clip)
        for weight, bias, activation in self._layers:
            x = x @ weight.T
            x += bias
            x = activation(x)
        outputs = x @ self._head_weights
        outputs += self._head_biases
        params, values = outputs[:, :-1], outputs[:, -1]
        if self._log_stddev is not None:
            deviations = np.broadcast_to(self._log_stddev, (len(params), len(self._log_stddev)))
            params = np.concatenate((params, deviations), axis=1)
        if self._returns_normalizer is not None:
            _clip(values, self._value_clip)
            values = values / self._value_factor + self._value_shift
        return params, values

    def _draw(self, count: int) -> np.ndarray:
        """The random numbers that decide so many actions."""
        if self.is_discrete:
            return self._rng.random((count, 1))
        return self._rng.standard_normal((count, self.num_actions), dtype=np.float32)

    def state_dict(self) -> dict[str, Any]:
        """State of the random numbers."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues the stream of random numbers."""
        self._rng.bit_generator.state = state["rng"]


def act_together(parts: Sequence[tuple[NumpyPolicy, int, int]], obs: np.ndarray) -> np.ndarray:
    """Outputs `[B, columns]` of several policies with the same action space, for one block of rows each.

    `parts` are policies with the first row of their block and the row after its last. Only what differs
    between them, the networks and the random numbers, is done one by one: the outputs are those of each
    policy acting alone, at little more than the price of one.
    """
    first = parts[0][0]
    num_actions = first.num_actions
    outputs = np.empty((len(obs), num_actions + first.num_params + 2), np.float32)
    params = outputs[:, num_actions:-2]
    drawn = []
    for policy, start, stop in parts:
        params[start:stop], outputs[start:stop, -1] = policy.forward(obs[start:stop])
        drawn.append(policy._draw(stop - start))
    sample = _sample_choices if first.is_discrete else _sample_numbers
    outputs[:, :num_actions], outputs[:, -2] = sample(params, np.concatenate(drawn))
    return outputs


def _sample_choices(logits: np.ndarray, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    # In float64 a threshold is never rounded up to the total, where no choice would be found.
    cumulative = np.add.accumulate(np.exp(shifted, dtype=np.float64), axis=1)
    total = cumulative[:, -1:]
    choices = (cumulative > uniform * total).argmax(axis=1)
    log_probs = shifted[np.arange(len(choices)), choices] - np.log(total[:, 0])
    return choices[:, None], log_probs


def _sample_numbers(params: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means, log_stddevs = np.split(params, 2, axis=1)
    log_stddevs = np.clip(log_stddevs, math.log(MIN_STDDEV), math.log(MAX_STDDEV))
    actions = means + noise * np.exp(log_stddevs)
    log_probs = (-0.5 * noise * noise - log_stddevs - np.float32(_HALF_LOG_2PI)).sum(axis=1)
    return actions, log_probs


def _clip(x: np.ndarray, limit: float) -> None:
    """In place; numpy's own `clip` spends more time on its arguments than on a small array."""
    np.maximum(x, -limit, out=x)
    np.minimum(x, limit, out=x)


def _modules_of(model: ActorCritic) -> list[nn.Module]:
    encoder = model.actor.encoder
    layers = list(encoder.fully_connected) if isinstance(encoder, MlpEncoder) else [encoder]
    return layers + (list(model.actor.decoder) if model.actor.decoder is not None else [])


def _layers_of(model: ActorCritic) -> list[Layer]:
    modules = _modules_of(model)
    pairs = zip(modules[::2], modules[1::2], strict=True)
    return [(*_arrays_of(linear), ACTIVATIONS[type(activation)]) for linear, activation in pairs]


def _arrays_of(linear: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(linear, nn.Linear)
    return linear.weight.detach().numpy(), linear.bias.detach().numpy()


def _constants(normalizer: RunningMeanStd | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, inverse deviation and clipping range as float32, as the normaliser itself computes them."""
    if normalizer is None:
        return np.float32(0.0), np.float32(1.0), math.inf  # type: ignore[return-value]
    factor = (normalizer.var + normalizer.eps).rsqrt().float().numpy()
    return normalizer.mean.float().numpy(), factor, normalizer.clip
