"""Which policy controls which agent of a split.

Policies are drawn uniformly per environment (or per agent, when policies may mix in one environment) and
drawn again every few episodes, so that each policy meets every environment and every opponent.

Invariant: an agent changes its policy only between two of its episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

EPISODES_PER_DRAW = 10


class PolicyMapping:
    """`policies[agent]` is the policy in control."""

    def __init__(
        self,
        num_envs: int,
        agents_per_env: int,
        num_policies: int,
        mix: bool = True,
        seed: int = 0,
        fixed_from: int | None = None,
    ):
        """With `fixed_from`, environment i belongs to policy `(fixed_from + i) % num_policies` for good."""
        self._agents_per_env = agents_per_env
        self._num_policies = num_policies
        self._mix = mix
        self._rng = np.random.default_rng(seed)
        self._episodes_left = np.full(num_envs, EPISODES_PER_DRAW * agents_per_env, np.int64)
        self._drawn = np.zeros(num_envs * agents_per_env, np.int16)
        self._fixed = fixed_from is not None or num_policies == 1
        for env_index in range(num_envs):
            self._draw(env_index)
        if fixed_from is not None:
            self._fix(fixed_from + np.arange(num_envs))
        self.policies = self._drawn.copy()
        # The same, unless guests take part: who chooses the actions, and who learns from them.
        self.actors = self.recorded = self.policies

    def _fix(self, env_ids: np.ndarray) -> None:
        self._drawn[:] = env_ids.repeat(self._agents_per_env) % self._num_policies

    def _draw(self, env_index: int) -> None:
        count = self._agents_per_env if self._mix else 1
        first = env_index * self._agents_per_env
        drawn = self._rng.integers(self._num_policies, size=count)
        self._drawn[first : first + self._agents_per_env] = drawn

    def episodes_ended(self, agent_indices: Sequence[int]) -> bool:
        """Counts episodes that ended in the same step and lets these agents change policies."""
        if self._fixed:
            return False
        for agent_index in agent_indices:
            env_index = agent_index // self._agents_per_env
            self._episodes_left[env_index] -= 1
            if self._episodes_left[env_index] <= 0:
                self._episodes_left[env_index] = EPISODES_PER_DRAW * self._agents_per_env
                self._draw(env_index)
        ended = list(agent_indices)
        self.policies[ended] = self._drawn[ended]
        return True

    def state_dict(self) -> dict[str, Any]:
        """Who controls whom, who comes next, and the random numbers that decide it."""
        return {
            "policies": self.policies.tolist(),
            "drawn": self._drawn.tolist(),
            "episodes_left": self._episodes_left.tolist(),
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self.policies[:] = state["policies"]
        self._drawn[:] = state["drawn"]
        self._episodes_left[:] = state["episodes_left"]
        self._rng.bit_generator.state = state["rng"]
