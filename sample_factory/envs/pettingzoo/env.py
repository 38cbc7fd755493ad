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

from sample_factory.envs.contract import ACTION_MASK, IS_ACTIVE
from sample_factory.envs.frame_wrappers import MAX_CHANNELS
from sample_factory.envs.roles import RoleObservations, Roles
from sample_factory.envs.spaces import UnsupportedSpaceError, check_action_space

ListStep = tuple[list[Any], list[float], list[bool], list[bool], list[dict[str, Any]]]


class PettingZooEnv(gymnasium.Env[Any, Any]):
    """A parallel environment; where its agents have different spaces it has `roles`.

    In turn-based games every agent takes part in every step. Who waits has a mask that forbids all actions,
    so that its policy is not taught by moves it did not make, while its value learns from the outcome. The
    same board is not worth the same to who is to move and who waits: its last number tells them apart.
    """

    is_multiagent = True

    def __init__(
        self,
        env: ParallelEnv[Any, Any, Any],
        name: str,
        *,
        channels_last: bool = False,
        turn_based: bool = False,
    ) -> None:
        self.env = env
        self.render_mode = getattr(env, "render_mode", None)
        self.metadata = env.metadata
        self.agents = list(env.possible_agents)
        self.num_agents = len(self.agents)
        seen = [env.observation_space(agent) for agent in self.agents]
        self._views = [ObservationView(space, channels_last, turn_based) for space in seen]
        self._action_spaces = [env.action_space(agent) for agent in self.agents]
        self.roles = _roles(seen, self._action_spaces, name)
        self._in_one_space: RoleObservations | None = None
        self.observation_space: spaces.Space[Any] = self._views[0].space
        self.action_space = self._action_spaces[0]
        if self.roles is not None:
            first = [self.roles.of_agent.index(role) for role in range(self.roles.count)]
            self._in_one_space = RoleObservations(
                self.roles.of_agent, [self._views[agent].parts() for agent in first]
            )
            self.observation_space = self._in_one_space.space
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
        chosen = {
            agent: _native(action, space)
            for agent, action, space in zip(self.agents, actions, self._action_spaces, strict=True)
            if agent in playing
        }
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
        seen = [view(self._obs[agent]) for view, agent in zip(self._views, self.agents, strict=True)]
        if self._in_one_space is None:
            return seen
        return [
            self._in_one_space(i, obs if isinstance(obs, dict) else {"obs": obs})
            for i, obs in enumerate(seen)
        ]


def _native(action: Any, space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Box):
        return np.minimum(np.maximum(action, space.low), space.high).astype(space.dtype)
    return int(action) if isinstance(space, spaces.Discrete) else action


def _roles(
    obs_spaces: list[spaces.Space[Any]], action_spaces: list[spaces.Space[Any]], name: str
) -> Roles | None:
    """Agents with equal spaces share a role; None when all agents are alike."""
    kinds: list[tuple[spaces.Space[Any], spaces.Space[Any]]] = []
    of_agent = []
    for kind in zip(obs_spaces, action_spaces, strict=True):
        if kind not in kinds:
            kinds.append(kind)
        of_agent.append(kinds.index(kind))
    if len(kinds) == 1:
        return None
    for _, action_space in kinds:
        check_action_space(action_space, name)
        if isinstance(action_space, spaces.Discrete) and action_space.start:
            raise UnsupportedSpaceError(
                f"--env={name} counts actions from {action_space.start}, which agents that differ can't; "
                "environments that count from 0 work, such as --env=pettingzoo_mpe.simple_adversary_v3."
            )
    return Roles(tuple(of_agent), tuple(action_space for _, action_space in kinds))


class ObservationView:
    """What policies see of PettingZoo's observations.

    `observation` is called `obs`; pictures are CHW unless asked otherwise; boards and the like are vectors,
    in turn-based games with one more number: 1 for who is to move, 0 for who waits.
    """

    def __init__(self, space: spaces.Space[Any], channels_last: bool, turn_based: bool = False) -> None:
        parts = space.spaces if isinstance(space, spaces.Dict) else {"obs": space}
        self._is_dict = isinstance(space, spaces.Dict)
        self._channels_last = channels_last
        self._pictures = {key for key, part in parts.items() if _is_picture(part)}
        self._boards = {key for key, part in parts.items() if isinstance(part, spaces.Box)} - self._pictures
        self._names = {key: "obs" if key == "observation" else key for key in parts}
        self._tells_turn = turn_based and "observation" in self._boards
        seen = {name: self._space(key, parts[key]) for key, name in self._names.items()}
        if self._tells_turn:
            seen["obs"] = _with_a_bit(seen["obs"])
        self.space: spaces.Space[Any] = spaces.Dict(seen) if self._is_dict else seen["obs"]

    def parts(self) -> dict[str, spaces.Space[Any]]:
        """The spaces by name, also of an observation that is a bare array."""
        return dict(self.space.spaces) if isinstance(self.space, spaces.Dict) else {"obs": self.space}

    def __call__(self, obs: Any) -> Any:
        """One agent's observation as its policy sees it."""
        if not self._is_dict:
            return self._array("obs", obs)
        seen = {name: self._array(key, obs[key]) for key, name in self._names.items()}
        if self._tells_turn:
            board = seen["obs"]
            seen["obs"] = np.append(board, board.dtype.type(seen[ACTION_MASK].any()))
        return seen

    def _array(self, key: str, value: Any) -> Any:
        if key in self._boards:
            return value.reshape(-1)
        return value.transpose(2, 0, 1) if key in self._pictures and not self._channels_last else value

    def _space(self, key: str, space: spaces.Space[Any]) -> spaces.Space[Any]:
        if not isinstance(space, spaces.Box):
            return space
        low, high = self._array(key, space.low), self._array(key, space.high)
        return spaces.Box(low, high, dtype=space.dtype.type)


def _with_a_bit(space: spaces.Space[Any]) -> spaces.Box:
    assert isinstance(space, spaces.Box)
    low, high = (np.append(bound, space.dtype.type(bit)) for bound, bit in ((space.low, 0), (space.high, 1)))
    return spaces.Box(low, high, dtype=space.dtype.type)


def _is_picture(space: spaces.Space[Any]) -> bool:
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) != 3:
        return False
    return space.shape[2] <= MAX_CHANNELS < space.shape[0]
