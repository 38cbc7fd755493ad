"""A policy that acts: reads observations from the store, writes actions into it.

Used by policy workers and by rollout workers that run the network themselves; so both placements of inference
are the same code. Weights are refreshed from the weight store between two calls, never inside one.

Invariant: everything written for a step (actions, their parameters, value, version) comes from one version.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

from sample_factory.algorithms.appo.trajectories import TrajectoryStore
from sample_factory.algorithms.appo.weights import NOT_PUBLISHED, WeightStore
from sample_factory.model.actor_critic import ActorCritic, PolicyOutput
from sample_factory.model.layers import arrange_for_acting
from sample_factory.model.numpy_policy import ActionSampler, NumpyPolicy
from sample_factory.model.observations import ACTION_MASK_KEY


class Acting(Protocol):
    """What the workers need of a policy; tests put an echo in its place."""

    version: int

    def refresh(self) -> bool:
        """Takes newer weights if there are any; False until the first ones are published."""

    def act(self, slots: np.ndarray, rows: np.ndarray | int) -> None:
        """Chooses actions for the observations at `[slots, rows]` and writes all outputs there."""


class ActingPolicy:
    """One policy's network on the inference side."""

    def __init__(
        self,
        model: ActorCritic,
        weights: WeightStore,
        store: TrajectoryStore,
        seed: int,
        device: torch.device | None = None,
        use_numpy: bool = False,
    ):
        """`use_numpy` needs a model that `NumpyPolicy.fits`."""
        self._device = device or torch.device("cpu")
        self._model = model.to(self._device).eval()
        if self._device.type == "cpu":
            arrange_for_acting(model)
        self._weights = weights
        self._generator = torch.Generator(self._device).manual_seed(seed)
        self._uses_rnn = store.layout.rnn_state_size > 1
        self.store = store
        self.numpy_policy = NumpyPolicy(model, seed) if use_numpy and self._device.type == "cpu" else None
        self._sampler = self._find_sampler(seed)
        self.version = NOT_PUBLISHED
        # On a CPU these arrays are the model's own memory, so loading them is loading the model.
        self._state = {name: t.detach() for name, t in model.state_dict().items()}
        self._arrays = {name: tensor.cpu().numpy() for name, tensor in self._state.items()}

    def refresh(self) -> bool:
        """See `Acting`."""
        if self._weights.version != self.version:
            loaded = self._weights.load(self._arrays)
            if loaded != NOT_PUBLISHED:
                self.version = loaded
                if self.numpy_policy is not None:
                    self.numpy_policy.refresh()
                if self._device.type != "cpu":
                    for name, tensor in self._state.items():
                        tensor.copy_(torch.from_numpy(self._arrays[name]))
        return self.version != NOT_PUBLISHED

    def act(self, slots: np.ndarray, rows: np.ndarray | int) -> None:
        """See `Acting`."""
        store = self.store
        if self.numpy_policy is not None:
            store.outputs[slots, rows] = self.numpy_policy.act(store.obs["obs"][slots, rows])
        else:
            self._act_with_torch(slots, rows)
        store.policy_versions[slots, rows] = self.version

    @torch.inference_mode()
    def _act_with_torch(self, slots: np.ndarray, rows: np.ndarray | int) -> None:
        store = self.store
        obs = {key: self._to_device(array[slots, rows]) for key, array in store.obs.items()}
        output = self._model.act(obs, self._to_device(store.rnn_states[slots, rows]))
        store.outputs[slots, rows] = self._choose(output, obs)
        if self._uses_rnn:
            store.rnn_states[slots, rows + 1] = output.rnn_states.cpu().numpy()

    def _choose(self, output: PolicyOutput, obs: dict[str, torch.Tensor]) -> np.ndarray:
        """Actions, their parameters, log-probability and value `[B, columns]`."""
        if self._sampler is not None:
            return self._sampler.outputs(output.action_params.numpy(), output.values[:, None].numpy())
        distribution = self._model.action_distribution(output.action_params, obs)
        actions = distribution.sample(self._generator)
        log_probs = distribution.log_prob(actions)[:, None]
        columns = (actions, output.action_params, log_probs, output.values[:, None])
        return torch.cat(columns, dim=1).cpu().numpy()

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)

    def state_dict(self) -> dict[str, Any]:
        """State of the random numbers, for a bit-exact resume."""
        if self._sampler is not None:
            return self._sampler.state_dict()
        return {"generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues the stream of random numbers; a state of the other kind, of earlier code, is left out."""
        if self._sampler is not None and "rng" in state:
            self._sampler.load_state_dict(state)
        elif self._sampler is None and "generator" in state:
            self._generator.set_state(state["generator"])

    def _find_sampler(self, seed: int) -> ActionSampler | None:
        """Numpy's for what it can do: with a few rows, torch's operations cost more than the choices."""
        if self.numpy_policy is not None:
            return self.numpy_policy.sampler
        is_masked = ACTION_MASK_KEY in self.store.layout.observations
        if self._device.type != "cpu" or is_masked or not ActionSampler.fits(self._model.action_space):
            return None
        return ActionSampler(self._model.action_space, seed)
