"""Turn-based PettingZoo games (AEC) as parallel ones.

Used by the PettingZoo family for modules without `parallel_env`.
Invariant: only the agent whose turn it is moves; the others' actions are dropped.
"""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel, turn_based_aec_to_parallel

from sample_factory.envs.contract import ACTION_MASK
from sample_factory.envs.spaces import UnsupportedSpaceError


def parallel_from_turns(env: AECEnv[Any, Any, Any], name: str) -> ParallelEnv[Any, Any, Any]:
    """A parallel environment that plays the same game.

    Raises:
        UnsupportedSpaceError: agents that wait could not be told from agents that act.
    """
    if env.metadata.get("is_parallelizable"):
        return aec_to_parallel(env)
    if not all(_has_action_mask(env.observation_space(agent)) for agent in env.possible_agents):
        raise UnsupportedSpaceError(
            f"--env={name} is turn-based and has no {ACTION_MASK}, so who waits would learn from moves it "
            "did not make; games with a mask work, such as --env=pettingzoo_classic.connect_four_v3."
        )
    return turn_based_aec_to_parallel(env)


def _has_action_mask(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
