"""Turn-based PettingZoo games (AEC) as parallel ones.

Used by the PettingZoo family for modules without `parallel_env`.
Invariant: only the agent whose turn it is moves; the others' actions are dropped.
"""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import BaseWrapper
from pettingzoo.utils.conversions import aec_to_parallel, turn_based_aec_to_parallel_wrapper

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
    return TurnBasedEnv(env)


class TurnBasedEnv(turn_based_aec_to_parallel_wrapper):
    """Agents wait for each other, each with a mask that forbids everything while it waits.

    Does what PettingZoo's own does, but looks at the game past the wrappers that only pass on.
    """

    def __init__(self, env: AECEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._game = _without_passing_on(env)

    def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """One move of the agent whose turn it is."""
        env, game = self.aec_env, self._game
        env.step(actions[game.agent_selection])
        results = dict(game.rewards), dict(game.terminations), dict(game.truncations), dict(game.infos)
        observations = {agent: env.observe(agent) for agent in game.agents}
        while game.agents and (
            game.terminations[game.agent_selection] or game.truncations[game.agent_selection]
        ):
            env.step(None)  # says goodbye to an agent that is out of the game
        self.agents = game.agents
        return observations, *results


def _without_passing_on(env: AECEnv[Any, Any, Any]) -> AECEnv[Any, Any, Any]:
    """The game itself, or the outermost layer that is not PettingZoo's and may have a state of its own."""
    while isinstance(env, BaseWrapper) and type(env).__module__.startswith("pettingzoo.utils."):
        env = env.env
    return env


def _has_action_mask(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
