"""Policies of different roles in one trajectory store.

A slot has room for what any role sees and does; a policy's view of the store has only the arrays of its own
role, under their plain names. So acting, batching and learning know nothing of roles.

Invariant: views share the store's memory, and policies of one role agree on where everything is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sample_factory.algorithms.appo.policy_mapping import PolicyMapping
from sample_factory.algorithms.appo.probe import RoleProbe
from sample_factory.algorithms.appo.trajectories import TrajectoryLayout
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.envs.roles import Roles


def check_roles(cfg: Config, roles: Roles) -> None:
    """Raises `ConfigError` when the settings don't give every role its policies, or want what roles can't."""
    problems = []
    count = roles.count
    if cfg.num_policies % count:
        problems.append(
            f"--num_policies={cfg.num_policies} must be a multiple of {count}: the agents of --env={cfg.env} "
            f"have {count} kinds of spaces, and each kind needs policies of its own; "
            f"use --num_policies={count * max(1, cfg.num_policies // count)}."
        )
    if not cfg.async_rl and len({roles.of_agent.count(role) for role in range(count)}) > 1:
        problems.append(
            f"--async_rl=False needs as many agents of one kind as of any other, for all policies to collect "
            f"alike, which --env={cfg.env} does not have; use --async_rl=True."
        )
    if cfg.eval_every_env_steps > 0:
        problems.append(
            f"--eval_every_env_steps={cfg.eval_every_env_steps} needs agents that are alike, which those of "
            f"--env={cfg.env} are not; use --eval_every_env_steps=0, and `sf evaluate` when you like."
        )
    if cfg.league_fraction > 0:
        problems.append(
            f"--league_fraction={cfg.league_fraction} needs agents that are alike, which those of "
            f"--env={cfg.env} are not; use --league_fraction=0."
        )
    if problems:
        raise ConfigError(problems)


def layout_for_all(roles: Sequence[RoleProbe]) -> TrajectoryLayout:
    """A layout with room for the trajectories of every role."""
    layouts = [role.trajectories for role in roles]
    if len(layouts) == 1:
        return layouts[0]
    most_actions = max(layout.num_actions for layout in layouts)
    return TrajectoryLayout(
        rollout=layouts[0].rollout,
        observations={
            f"{role.obs_prefix}{key}": value
            for role in roles
            for key, value in role.trajectories.observations.items()
        },
        num_actions=most_actions,
        num_action_parameters=max(layout.num_outputs for layout in layouts) - most_actions - 2,
        rnn_state_size=max(layout.rnn_state_size for layout in layouts),
        turned=frozenset(f"{role.obs_prefix}{key}" for role in roles for key in role.trajectories.turned),
    )


class RoleArrays(Mapping[str, np.ndarray]):
    """The arrays of a store as one role sees them."""

    def __init__(self, arrays: Mapping[str, np.ndarray], role: RoleProbe):
        layout = role.trajectories
        self._arrays = {name: array for name, array in arrays.items() if not name.startswith("obs/")}
        self._arrays["outputs"] = arrays["outputs"][..., : layout.num_outputs]
        self._arrays["rnn_states"] = arrays["rnn_states"][..., : layout.rnn_state_size]
        for key in layout.observations:
            self._arrays[f"obs/{key}"] = arrays[f"obs/{role.obs_prefix}{key}"]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class RoleActions:
    """Turns a split's actions into what its environments take, each agent's by its own space."""

    def __init__(
        self,
        agent_roles: Sequence[int],
        roles: Sequence[RoleProbe],
        to_env_actions: Callable[[spaces.Space[Any], np.ndarray], Any],
    ):
        self._agent_roles = np.array(agent_roles)
        self._roles = roles
        self._to_env_actions = to_env_actions

    def __call__(self, actions: np.ndarray) -> list[Any]:
        """Actions `[agents, columns]` of all environments of a split; one entry per agent."""
        roles = np.tile(self._agent_roles, len(actions) // len(self._agent_roles))
        found: list[Any] = [None] * len(actions)
        for number, role in enumerate(self._roles):
            agents = np.flatnonzero(roles == number)
            columns = actions[agents, : role.trajectories.num_actions]
            chosen = self._to_env_actions(role.action_space, columns)
            for agent, action in zip(agents.tolist(), chosen, strict=True):
                found[agent] = action
        return found


class RoleMapping(PolicyMapping):
    """Draws for every agent one of the policies of its role; or, unmixed, one team for all agents.

    Policy p has role `p % roles` and belongs to team `p // roles`.
    """

    def __init__(
        self,
        agent_roles: Sequence[int],
        num_envs: int,
        num_policies: int,
        mix: bool = True,
        seed: int = 0,
        fixed_from: int | None = None,
    ):
        """With `fixed_from`, environment i belongs to team `(fixed_from + i) % teams` for good."""
        self._agent_roles = np.array(agent_roles)
        self._num_roles = int(self._agent_roles.max()) + 1
        super().__init__(num_envs, len(agent_roles), num_policies, mix, seed, fixed_from)

    def _fix(self, env_ids: np.ndarray) -> None:
        teams = env_ids % (self._num_policies // self._num_roles)
        self._drawn[:] = (teams[:, None] * self._num_roles + self._agent_roles).ravel()

    def _draw(self, env_index: int) -> None:
        first = env_index * self._agents_per_env
        teams = self._rng.integers(
            self._num_policies // self._num_roles, size=self._agents_per_env if self._mix else 1
        )
        self._drawn[first : first + self._agents_per_env] = teams * self._num_roles + self._agent_roles
