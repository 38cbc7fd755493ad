"""A PettingZoo environment in the engine's words: lists with one entry per agent, and it resets itself.

The PettingZoo family makes it.
Invariants: agents keep their places in the lists for life; an agent that is out of the game is inactive until
the game ends for all, and its observation is the last it had; no waiting agent of a turn-based game may act.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from sample_factory.envs.contract import IS_ACTIVE
from sample_factory.envs.frame_wrappers import MAX_CHANNELS
from sample_factory.envs.spaces import UnsupportedSpaceError

ListStep = tuple[list[Any], list[float], list[bool], list[bool], list[dict[str, Any]]]


class PettingZooEnv(gymnasium.Env[Any, Any]):
    """A parallel environment whose agents all have the same spaces.

    In turn-based games every agent takes part in every step. Who waits has a mask that forbids all actions,
    so that its policy is not taught by moves it did not make, while its value learns from the outcome.
    """

    is_multiagent = True

    def __init__(self, env: ParallelEnv[Any, Any, Any], name: str, channels_last: bool = False) -> None:
        self.env = env
        self.render_mode = getattr(env, "render_mode", None)
        self.metadata = env.metadata
        self.agents = list(env.possible_agents)
        self.num_agents = len(self.agents)
        self._view = ObservationView(
            _shared(map(env.observation_space, self.agents), "observation", name), channels_last
        )
        self.observation_space = self._view.space
        self.action_space = _shared(map(env.action_space, self.agents), "action", name)
        self._playing: set[Any] = set()
        self._obs: dict[Any, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Any], Any]:
        """Starts a game for all agents."""
        super().reset(seed=seed)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._playing = set(self.env.agents)
        self._obs.update(observations)
        return self._observations(), [dict(infos.get(agent, {})) for agent in self.agents]

    def step(self, actions: list[Any]) -> ListStep:  # type: ignore[override]
        """One step of everybody who is still playing."""
        playing = self._playing
        chosen = {a: self._native(act) for a, act in zip(self.agents, actions, strict=True) if a in playing}
        observations, rewards, terminated, truncated, infos = self.env.step(chosen)
        self._obs.update(observations)
        self._playing = playing & set(self.env.agents)

        game_over = not self._playing
        ends = [self._end(agent, playing, terminated, truncated, game_over) for agent in self.agents]
        told = [
            dict(infos.get(agent, {})) if agent in playing else {IS_ACTIVE: False} for agent in self.agents
        ]
        if game_over:
            self.reset()
        return (
            self._observations(),
            [float(rewards.get(agent, 0.0)) if agent in playing else 0.0 for agent in self.agents],
            [over for over, _ in ends],
            [timed_out for _, timed_out in ends],
            told,
        )

    def render(self) -> Any:
        """The picture of the whole game."""
        return self.env.render()

    def close(self) -> None:
        """Closes the game."""
        self.env.close()

    def _end(
        self,
        agent: Any,
        playing: set[Any],
        terminated: dict[Any, bool],
        truncated: dict[Any, bool],
        game_over: bool,
    ) -> tuple[bool, bool]:
        """Whether an agent's episode ended on this step, and whether only because of time."""
        if agent not in playing:
            # It waited for the others; the mark tells recurrent policies that a new game begins.
            return game_over, False
        timed_out = bool(truncated.get(agent, False)) and not terminated.get(agent, False)
        left = agent not in self._playing
        return left and not timed_out, left and timed_out

    def _observations(self) -> list[Any]:
        return [self._view(self._obs[agent]) for agent in self.agents]

    def _native(self, action: Any) -> Any:
        space = self.action_space
        if isinstance(space, spaces.Box):
            return np.minimum(np.maximum(action, space.low), space.high).astype(space.dtype)
        return int(action) if isinstance(space, spaces.Discrete) else action


def _shared(found: Any, kind: str, name: str) -> spaces.Space[Any]:
    all_spaces = list(found)
    if any(space != all_spaces[0] for space in all_spaces):
        raise UnsupportedSpaceError(
            f"The agents of --env={name} have different {kind} spaces, which one policy cannot serve; "
            "environments whose agents are alike work, such as --env=pettingzoo_sisl.pursuit_v5."
        )
    return all_spaces[0]


class ObservationView:
    """What policies see of PettingZoo's observations.

    `observation` is called `obs`; pictures are CHW unless asked otherwise; boards and the like are vectors.
    """

    def __init__(self, space: spaces.Space[Any], channels_last: bool) -> None:
        parts = space.spaces if isinstance(space, spaces.Dict) else {"obs": space}
        self._is_dict = isinstance(space, spaces.Dict)
        self._channels_last = channels_last
        self._pictures = {key for key, part in parts.items() if _is_picture(part)}
        self._boards = {key for key, part in parts.items() if isinstance(part, spaces.Box)} - self._pictures
        self._names = {key: "obs" if key == "observation" else key for key in parts}
        seen = {name: self._space(key, parts[key]) for key, name in self._names.items()}
        self.space: spaces.Space[Any] = spaces.Dict(seen) if self._is_dict else seen["obs"]

    def __call__(self, obs: Any) -> Any:
        """One agent's observation as its policy sees it."""
        if self._is_dict:
            return {name: self._array(key, obs[key]) for key, name in self._names.items()}
        return self._array("obs", obs)

    def _array(self, key: str, value: Any) -> Any:
        if key in self._boards:
            return value.reshape(-1)
        return value.transpose(2, 0, 1) if key in self._pictures and not self._channels_last else value

    def _space(self, key: str, space: spaces.Space[Any]) -> spaces.Space[Any]:
        if not isinstance(space, spaces.Box):
            return space
        low, high = self._array(key, space.low), self._array(key, space.high)
        return spaces.Box(low, high, dtype=space.dtype.type)


def _is_picture(space: spaces.Space[Any]) -> bool:
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) != 3:
        return False
    return space.shape[2] <= MAX_CHANNELS < space.shape[0]
