"""A vector that remembers how each environment came to where it is, so that it can be brought there again.

Environments can't be saved, but a deterministic one can be replayed: its episode's seed and the actions
since. Serial sessions use this to resume bit for bit; every episode is seeded, and nothing executable is
stored.

Invariant: `replay` either restores exactly the saved observation or says that it could not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sample_factory.envs.replacement import Replacements
from sample_factory.envs.vector import SingleAgentVector


class JournaledVector(SingleAgentVector):
    """`SingleAgentVector` with a seed for every episode and a record of the current one."""

    def __init__(
        self,
        envs: Sequence[Any],
        seeds: Sequence[int],
        bootstrap_time_outs: bool = True,
        replacements: Replacements | None = None,
    ):
        super().__init__(envs, seeds, bootstrap_time_outs, replacements)
        self._episodes = [0] * self.num_agents
        self._actions: list[list[Any]] = [[] for _ in range(self.num_agents)]
        self._last_obs: list[Any] = [None] * self.num_agents
        self._step_functions = [self._step_function(i) for i in range(self.num_agents)]

    def _reset_env(self, i: int, seed: int | None = None) -> Any:
        self._episodes[i] += 1
        self._actions[i] = []
        self._last_obs[i] = super()._reset_env(i, self._episode_seed(i))
        return self._last_obs[i]

    def _step_function(self, i: int) -> Callable[[Any], Any]:
        return partial(self._journaled_step, i)

    def _episode_seed(self, i: int) -> int:
        sequence = np.random.SeedSequence([self._seeds[i], self._episodes[i]])
        return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF

    def _journaled_step(self, i: int, action: Any) -> Any:
        self._actions[i].append(action)
        result = self.envs[i].step(action)
        self._last_obs[i] = result[0]
        return result

    def state_dict(self) -> dict[str, Any]:
        """Seeds, episode numbers, actions and running sums; plain numbers and lists."""
        return {
            "seeds": list(self._seeds),
            "episodes": list(self._episodes),
            "actions": [[_plain(action) for action in actions] for actions in self._actions],
            "awaits_reset": list(self._awaits_reset),
            "rewards": self._sums.rewards.tolist(),
            "frames": self._sums.frames.tolist(),
            "last_obs": [_plain(obs) for obs in self._last_obs],
        }

    def replay(self, state: dict[str, Any]) -> bool:
        """Brings every environment to where `state_dict` was taken; False if one went elsewhere."""
        self._seeds = list(state["seeds"])
        self._episodes = [episode - 1 for episode in state["episodes"]]
        for i, actions in enumerate(state["actions"]):
            obs = self._reset_env(i)
            for action in actions:
                obs = self._apply(i, _like_action(self.envs[i].action_space, action))[0]
            if _plain(obs) != state["last_obs"][i]:
                return False
        self._awaits_reset = list(state["awaits_reset"])
        self._sums.rewards[:] = state["rewards"]
        self._sums.frames[:] = state["frames"]
        return True


def _plain(value: Any) -> Any:
    """Arrays, tuples and dictionaries as lists, exactly."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _like_action(space: Any, action: Any) -> Any:
    """An action as the environment got it the first time."""
    if hasattr(space, "spaces"):
        return tuple(_like_action(s, a) for s, a in zip(space.spaces, action, strict=True))
    return np.asarray(action, space.dtype) if isinstance(action, list) else action
