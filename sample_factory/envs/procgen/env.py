"""Copies of a Procgen game stepped by one C++ call, and one copy as an ordinary environment.

Used by the Procgen family. The game starts the next level within the step that ends one and does not tell
time-outs from deaths, so every end is a termination and comes with the next level's first picture.
Invariant: pictures are 64x64 RGB bytes, channels first unless asked otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from procgen import ProcgenGym3Env

from sample_factory.envs.batched import BatchedStep, native_actions
from sample_factory.envs.contract import EXTRA_STATS

SIDE = 64
NUM_ACTIONS = 15


@dataclass(frozen=True)
class ProcgenOptions:
    """Which game, and which of its levels."""

    game: str
    num_levels: int = 0
    start_level: int = 0
    distribution_mode: str = "hard"
    channels_last: bool = False
    render_mode: str | None = None


class ProcgenBatchedEnv:
    """A `BatchedEnv` that resets within the step that ends an episode, so `resets` is never set."""

    def __init__(self, options: ProcgenOptions, num_envs: int) -> None:
        self.options = options
        self.num_envs = num_envs
        shape = (SIDE, SIDE, 3) if options.channels_last else (3, SIDE, SIDE)
        self.observation_space = gym.spaces.Dict({"obs": gym.spaces.Box(0, 255, shape, np.uint8)})
        self.action_space: gym.Space[Any] = gym.spaces.Discrete(NUM_ACTIONS)
        self._never = np.zeros(num_envs, bool)
        self._one_frame = np.ones(num_envs, np.int32)
        self._games: Any = None

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        """See `BatchedEnv`."""
        self.close()
        self._games = ProcgenGym3Env(
            num=self.num_envs,
            env_name=self.options.game,
            rand_seed=seed % (2**31),
            num_levels=self.options.num_levels,
            start_level=self.options.start_level,
            distribution_mode=self.options.distribution_mode,
            num_threads=0,
            render_mode="rgb_array" if self.options.render_mode == "rgb_array" else None,
        )
        return self._seen(self._games.observe()[1])

    def step(self, actions: np.ndarray) -> BatchedStep:
        """See `BatchedEnv`."""
        self._games.act(native_actions(actions, self.action_space).astype(np.int32))
        rewards, obs, firsts = self._games.observe()
        ended = np.flatnonzero(firsts).tolist()
        levels = self._games.get_info() if ended else []
        return BatchedStep(
            obs=self._seen(obs),
            rewards=np.asarray(rewards, np.float32),
            terminated=np.array(firsts, bool),
            truncated=self._never,
            resets=self._never,
            frames=self._one_frame,
            infos=[
                (i, {EXTRA_STATS: {"level_complete": int(levels[i]["prev_level_complete"])}}) for i in ended
            ],
        )

    def render(self) -> np.ndarray:
        """The large picture of the first copy."""
        return self._games.get_info()[0]["rgb"]

    def close(self) -> None:
        """See `BatchedEnv`."""
        if self._games is not None:
            self._games.close()
            self._games = None

    def _seen(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        pictures = obs["rgb"]
        return {"obs": pictures if self.options.channels_last else pictures.transpose(0, 3, 1, 2)}


class ProcgenEnv(gym.Env[Any, Any]):
    """One copy; after an episode's end `reset` gives the picture the game has already moved on to."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, options: ProcgenOptions) -> None:
        self.batch = ProcgenBatchedEnv(options, 1)
        self.render_mode = options.render_mode
        self.observation_space = self.batch.observation_space["obs"]
        self.action_space = self.batch.action_space
        self._next_first: np.ndarray | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Goes on to the next level after an end, else starts anew."""
        super().reset(seed=seed)
        if self._next_first is not None and seed is None:
            first, self._next_first = self._next_first, None
            return first, {}
        self._next_first = None
        return self.batch.reset(int(self.np_random.integers(2**31 - 1)))["obs"][0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Presses one combination of buttons."""
        step = self.batch.step(np.asarray([action]))
        picture, terminated = step.obs["obs"][0], bool(step.terminated[0])
        self._next_first = picture if terminated else None
        return picture, float(step.rewards[0]), terminated, False, dict(step.infos).get(0, {})

    def render(self) -> Any:
        """The large picture, if asked for when the game was made."""
        return self.batch.render() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Closes the game."""
        self.batch.close()
