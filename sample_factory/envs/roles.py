"""Agents of one environment that differ in what they see or do.

Agents with the same spaces share a role. A multi-agent environment whose agents differ has an attribute
`roles`; it observes a Dict with the parts of all roles, each under its role's name, and an agent's
observation is blank in the parts of other roles. So it looks like any other to whoever only moves arrays.

Invariant: every agent has exactly one role, for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from sample_factory.envs.contract import agents_of
from sample_factory.envs.wrappers import layer_attribute


@dataclass(frozen=True)
class Roles:
    """Which agent has which role, and the action space of each role."""

    of_agent: tuple[int, ...]
    action_spaces: tuple[spaces.Space[Any], ...]

    @property
    def count(self) -> int:
        """How many roles there are."""
        return len(self.action_spaces)

    def action_space_of(self, agent: int) -> spaces.Space[Any]:
        """What one agent may do."""
        return self.action_spaces[self.of_agent[agent]]


def role_prefix(role: int) -> str:
    """How the keys of a role's observations begin."""
    return f"role_{role}/"


def roles_of(env: Any) -> Roles | None:
    """The roles of an environment made by `make_env`; None when all its agents are alike."""
    found = layer_attribute(env, "roles", None)
    return found if isinstance(found, Roles) else None


def action_spaces(env: Any) -> list[spaces.Space[Any]]:
    """What each agent of an environment may do."""
    roles, num_agents = roles_of(env), agents_of(env)
    if roles is None:
        return [env.action_space] * num_agents
    return [roles.action_space_of(agent) for agent in range(num_agents)]


def role_obs_space(obs_space: spaces.Dict, role: int) -> spaces.Dict:
    """What one role sees of an observation space with the parts of all roles."""
    return spaces.Dict(role_observation(obs_space.spaces, role))


def role_observation(obs: Mapping[str, Any], role: int) -> dict[str, Any]:
    """What one role sees of an observation with the parts of all roles."""
    prefix = role_prefix(role)
    return {key.removeprefix(prefix): value for key, value in obs.items() if key.startswith(prefix)}


class RoleObservations:
    """Puts the observations of agents with different spaces into one space."""

    def __init__(self, of_agent: Sequence[int], spaces_of_role: Sequence[Mapping[str, spaces.Space[Any]]]):
        parts = {
            f"{role_prefix(role)}{key}": space
            for role, found in enumerate(spaces_of_role)
            for key, space in found.items()
        }
        self.space = spaces.Dict(parts)
        self._prefixes = [role_prefix(role) for role in of_agent]
        self._blank = {key: _blank(space) for key, space in parts.items()}

    def __call__(self, agent: int, obs: Mapping[str, Any]) -> dict[str, Any]:
        """One agent's observation, blank in the parts of other roles."""
        prefix = self._prefixes[agent]
        return self._blank | {f"{prefix}{key}": value for key, value in obs.items()}


def _blank(space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    return np.zeros(space.shape or (), space.dtype)
