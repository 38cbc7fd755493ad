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
class Probe:
    """Facts about the environment, the network and the machine."""

    obs_space: spaces.Dict
    action_space: spaces.Space[Any]
    num_agents: int
    is_multiagent: bool
    reward_shaping: dict[str, Any] | None
    trajectories: TrajectoryLayout
    weights: WeightsLayout
    num_parameters: int
    num_gpus: int
