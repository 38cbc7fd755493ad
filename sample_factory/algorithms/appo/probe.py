"""What a session knows about its environment, its network and the machine before it starts.

`probing.probe` finds it out, in a child process of parallel sessions. Invariant: importing this module does
not import torch, so that the main process can read what the child found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from sample_factory.algorithms.appo.trajectories import TrajectoryLayout
from sample_factory.algorithms.appo.weights import WeightsLayout


@dataclass(frozen=True)
class RoleProbe:
    """What the policies of one role see and do, and how that is stored."""

    obs_space: spaces.Dict
    action_space: spaces.Space[Any]
    trajectories: TrajectoryLayout
    weights: WeightsLayout
    obs_prefix: str = ""  # of this role's observations among those of all roles
    num_parameters: int = 0


@dataclass(frozen=True)
class Probe:
    """Facts about the environment, the network and the machine."""

    num_agents: int
    is_multiagent: bool
    reward_shaping: dict[str, Any] | None
    trajectories: TrajectoryLayout  # of the store, with room for every role
    roles: tuple[RoleProbe, ...]  # one, unless the agents of an environment differ
    agent_roles: tuple[int, ...]  # of the agents of one environment
    num_gpus: int

    def role_of(self, policy_id: int) -> RoleProbe:
        """Policies take roles in turn."""
        return self.roles[policy_id % len(self.roles)]

    @property
    def num_parameters(self) -> int:
        """Of the first policy."""
        return self.roles[0].num_parameters
