"""Acting with a small network in numpy: the function of `ActorCritic.act` without torch's cost per operation.

A vector of CartPoles costs less to step than torch needs to find out what to do with 32 x 64 numbers.
Networks that are fully connected layers on one vector, with one discrete or one real-valued action, are a
dozen calls of numpy, and several of them with one more axis are not many more. Everything else acts through
torch.

Invariant: a policy's weights are the torch network's own memory, so loading that is loading this; a
population holds copies, which `take` renews.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_MIN_LOG_STDDEV, _MAX_LOG_STDDEV = np.float32(math.log(MIN_STDDEV)), np.float32(math.log(MAX_STDDEV))


@dataclass
class Network:
    """A network's numbers; with a first axis for the policies, those of several networks."""

    weights: list[np.ndarray]  # [inputs, outputs] of each layer, the heads of parameters and value last
    biases: list[np.ndarray]  # [1, outputs]
    activations: list[Activation]  # one fewer: the heads have none
    obs_range: list[np.ndarray]  # mean and inverse deviation [1, D]; empty without normalisation
    value_range: list[np.ndarray]  # mean and inverse deviation [1, 1]; empty without normalisation
    log_stddev: np.ndarray | None  # [1, actions], where it does not depend on the observation
    obs_mean: float
    obs_scale: float
    obs_clip: float
    value_clip: float

    def arrays(self) -> list[np.ndarray]:
        """Everything that training changes."""
        deviations = [] if self.log_stddev is None else [self.log_stddev]
        return [*self.weights, *self.biases, *self.obs_range, *self.value_range, *deviations]

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Action parameters `[..., K]` and values `[..., 1]` in the units of the rewards."""
        if self.obs_mean != 0.0 or self.obs_scale != 1.0:
            x = (x - np.float32(self.obs_mean)) / np.float32(self.obs_scale)
        if self.obs_range:
            mean, factor = self.obs_range
            x = x - mean
            x *= factor
            _clip(x, self.obs_clip)
        hidden = zip(self.weights[:-1], self.biases[:-1], self.activations, strict=True)
        for weight, bias, activation in hidden:
            x = x @ weight
            x += bias
            x = activation(x)
        outputs = x @ self.weights[-1]
        outputs += self.biases[-1]
        params, values = outputs[..., :-1], outputs[..., -1:]
        if self.log_stddev is not None:
            params = _beside(params, self.log_stddev)
        if self.value_range:
            mean, factor = self.value_range
            _clip(values, self.value_clip)
            values = values / factor + mean
        return params, values


class ActionSampler:
    """Chooses actions from their parameters; one discrete or one real-valued action, nothing forbidden."""

    def __init__(self, action_space: spaces.Space, seed: int):
        """Takes a space for which `fits` is true."""
        self._rng = np.random.default_rng(seed)
        self.is_discrete = isinstance(action_space, spaces.Discrete)

    @staticmethod
    def fits(action_space: spaces.Space) -> bool:
        """Whether there is one head of a kind that `_outputs` knows."""
        return isinstance(action_space, spaces.Discrete | spaces.Box) and len(action_heads(action_space)) == 1

    def outputs(self, params: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Actions, their parameters, log-probability and value `[B, columns]`; values are `[B, 1]`."""
        return _outputs(params, values, self.draw(len(params), params.shape[-1]), self.is_discrete)

    def draw(self, count: int, num_params: int) -> np.ndarray:
        """The random numbers that decide so many actions."""
        if self.is_discrete:
            return self._rng.random((count, 1))
        return self._rng.standard_normal((count, num_params // 2), dtype=np.float32)

    def state_dict(self) -> dict[str, Any]:
        """State of the random numbers."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues the stream of random numbers."""
        self._rng.bit_generator.state = state["rng"]


class NumpyPolicy:
    """A network and a stream of random numbers."""

    def __init__(self, model: ActorCritic, seed: int):
        """Takes a model for which `fits` is true."""
        self._model = model
        self.sampler = ActionSampler(model.action_space, seed)
        self.network = _network_of(model)
        self.refresh()

    @staticmethod
    def fits(model: ActorCritic, obs_space: spaces.Dict) -> bool:
        """Whether a network is simple enough."""
        trunk = model.actor
        return (
            type(model) is SharedActorCritic
            and list(obs_space.spaces) == ["obs"]
            and obs_space["obs"].dtype == np.float32
            and len(obs_space["obs"].shape or ()) == 1
            and type(trunk.encoder) is MlpEncoder
            and type(trunk.core) is IdentityCore
            and ActionSampler.fits(model.action_space)
            and model.action_head.tanh_scale == 0.0
            and all(type(layer) in (nn.Linear, *ACTIVATIONS) for layer in _modules_of(model))
        )

    def refresh(self) -> None:
        """Takes over what is not the network's own memory, after weights were loaded."""
        model, network = self._model, self.network
        heads = (_weight_and_bias(model.action_head.linear), _weight_and_bias(model.value_head))
        # Both heads as one layer: half the calls.
        network.weights[-1] = np.concatenate([weight for weight, _ in heads], axis=1)
        network.biases[-1] = np.concatenate([bias for _, bias in heads], axis=1)
        network.obs_range = _range_of(model.obs_normalizers.get("obs"))
        network.value_range = _range_of(model.returns_normalizer)

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Actions, their parameters, log-probability and value `[B, columns]` for observations `[B, D]`."""
        return self.sampler.outputs(*self.network.forward(obs))


class NumpyPopulation:
    """Policies of one architecture that act in one pass, each with its own weights and random numbers."""

    def __init__(self, policies: Sequence[NumpyPolicy]):
        self._policies = list(policies)
        self._network = _repeated(policies[0].network, len(policies))
        for index in range(len(policies)):
            self.take(index)

    @staticmethod
    def fits(policies: Sequence[NumpyPolicy]) -> bool:
        """Whether all policies have the same shapes."""
        shapes = [[array.shape for array in policy.network.arrays()] for policy in policies]
        return all(other == shapes[0] for other in shapes)

    def take(self, index: int) -> None:
        """Copies the weights of one policy, after they have changed."""
        sources = self._policies[index].network.arrays()
        for target, source in zip(self._network.arrays(), sources, strict=True):
            target[index] = source

    def act(self, obs: np.ndarray, counts: Sequence[int]) -> np.ndarray:
        """Outputs `[P * n, columns]` for `obs[P, n, D]`; of policy p's rows only `counts[p]` are meant."""
        params, values = self._network.forward(obs)
        num_params = params.shape[-1]
        is_discrete = self._policies[0].sampler.is_discrete
        width, kind = (1, np.float64) if is_discrete else (num_params // 2, np.float32)
        drawn = np.zeros((*obs.shape[:2], width), kind)
        for index, count in enumerate(counts):
            if count:
                drawn[index, :count] = self._policies[index].sampler.draw(count, num_params)
        flat = params.reshape(-1, num_params), values.reshape(-1, 1), drawn.reshape(-1, width)
        return _outputs(*flat, is_discrete)


def _outputs(params: np.ndarray, values: np.ndarray, drawn: np.ndarray, is_discrete: bool) -> np.ndarray:
    """Actions chosen by the numbers drawn, their parameters, log-probability and value `[B, columns]`."""
    sample = _sample_choices if is_discrete else _sample_numbers
    actions, log_probs = sample(params, drawn)
    num_actions = actions.shape[1]
    outputs = np.empty((len(params), num_actions + params.shape[1] + 2), np.float32)
    outputs[:, :num_actions] = actions
    outputs[:, num_actions:-2] = params
    outputs[:, -2] = log_probs
    outputs[:, -1:] = values
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
    num_actions = noise.shape[1]
    # Few calls of the plainest kind: with so few numbers the calls are what takes time.
    log_stddevs = np.maximum(params[:, num_actions:], _MIN_LOG_STDDEV)
    np.minimum(log_stddevs, _MAX_LOG_STDDEV, out=log_stddevs)
    actions = np.exp(log_stddevs)
    actions *= noise
    actions += params[:, :num_actions]
    log_densities = noise * noise
    log_densities *= -0.5
    log_densities -= log_stddevs
    log_probs = np.add.reduce(log_densities, axis=1)
    log_probs -= num_actions * _HALF_LOG_2PI
    return actions, log_probs


def _beside(means: np.ndarray, log_stddev: np.ndarray) -> np.ndarray:
    """`[..., 2 * K]`, the deviations repeated for every row."""
    num_actions = means.shape[-1]
    params = np.empty((*means.shape[:-1], 2 * num_actions), np.float32)
    params[..., :num_actions] = means
    params[..., num_actions:] = log_stddev
    return params


def _clip(x: np.ndarray, limit: float) -> None:
    """In place; numpy's own `clip` spends more time on its arguments than on a small array."""
    np.maximum(x, -limit, out=x)
    np.minimum(x, limit, out=x)


def _modules_of(model: ActorCritic) -> list[nn.Module]:
    encoder = model.actor.encoder
    layers = list(encoder.fully_connected) if isinstance(encoder, MlpEncoder) else [encoder]
    return layers + (list(model.actor.decoder) if model.actor.decoder is not None else [])


def _network_of(model: ActorCritic) -> Network:
    """With places for what `refresh` fills in."""
    modules = _modules_of(model)
    layers = [_weight_and_bias(linear) for linear in modules[::2]]
    log_stddev = model.action_head.log_stddev
    obs_mean, obs_scale = model.observations.main_mean_and_scale()
    obs_normalizer, returns_normalizer = model.obs_normalizers.get("obs"), model.returns_normalizer
    nothing = np.empty((1, 0), np.float32)
    return Network(
        weights=[*(weight for weight, _ in layers), nothing],
        biases=[*(bias for _, bias in layers), nothing],
        activations=[ACTIVATIONS[type(activation)] for activation in modules[1::2]],
        obs_range=[],
        value_range=[],
        log_stddev=None if log_stddev is None else log_stddev.detach().numpy()[None],
        obs_mean=obs_mean,
        obs_scale=obs_scale,
        obs_clip=math.inf if obs_normalizer is None else obs_normalizer.clip,
        value_clip=math.inf if returns_normalizer is None else returns_normalizer.clip,
    )


def _repeated(network: Network, count: int) -> Network:
    """The same network so many times, along a new first axis; copies."""

    def stacks(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.stack([array] * count) for array in arrays]

    return replace(
        network,
        weights=stacks(network.weights),
        biases=stacks(network.biases),
        obs_range=stacks(network.obs_range),
        value_range=stacks(network.value_range),
        log_stddev=None if network.log_stddev is None else stacks([network.log_stddev])[0],
    )


def _weight_and_bias(linear: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(linear, nn.Linear)
    return linear.weight.detach().numpy().T, linear.bias.detach().numpy()[None]


def _range_of(normalizer: RunningMeanStd | None) -> list[np.ndarray]:
    """Mean and inverse deviation as float32, as the normaliser itself computes them."""
    if normalizer is None:
        return []
    factor = (normalizer.var + normalizer.eps).rsqrt().float().numpy()
    return [normalizer.mean.float().numpy().reshape(1, -1), factor.reshape(1, -1)]
