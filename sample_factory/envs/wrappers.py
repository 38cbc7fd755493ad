"""Wrappers that do not look at pictures: base class, actions, rewards and time.

Families stack them around a simulator; those for frames live in `frame_wrappers`, the one that records
episodes in `recording`. They keep `terminated` (the task ended) and `truncated` (time ran out) apart, and
pass `num_agents` and `is_multiagent` through, which gymnasium's own wrappers hide.

Invariant: a wrapper writes into no array or dict it got from the environment, except `info`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.contract import NUM_FRAMES

TERMINATED_BY_TIMER = "terminated_by_timer"  # info key: this step was the last one the time limit allows
TIMER_KEY = "timer"  # observation key of `RemainingTime`


def layer_attribute(env: Any, name: str, default: Any) -> Any:
    """An attribute of the outermost layer that has it."""
    while env is not None:
        if hasattr(env, name):
            return getattr(env, name)
        env = vars(env).get("env")
    return default


class EnvWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A gymnasium wrapper that shows how many agents the environment has."""

    @property
    def num_agents(self) -> int:
        """Agents in one environment."""
        return int(layer_attribute(self.env, "num_agents", 1))

    @property
    def is_multiagent(self) -> bool:
        """Whether `reset` and `step` speak in lists."""
        return bool(layer_attribute(self.env, "is_multiagent", self.num_agents > 1))


class ClipActions(EnvWrapper):
    """Keeps the actions of a Box within its bounds: a Gaussian policy knows no bounds, simulators do."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        if not isinstance(env.action_space, spaces.Box):
            raise TypeError(f"ClipActions clips Box actions, not {env.action_space}.")
        self._low, self._high = env.action_space.low, env.action_space.high

    def step(self, action: np.ndarray) -> tuple[Any, Any, Any, Any, Any]:
        """Steps with the nearest action inside the bounds."""
        # np.clip costs four times as much on arrays this small.
        return self.env.step(np.minimum(np.maximum(action, self._low), self._high))


class RewardScaling(EnvWrapper):
    """Multiplies rewards by a constant."""

    def __init__(self, env: gymnasium.Env, scale: float):
        super().__init__(env)
        self._scale = scale

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and scales the reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(reward) * self._scale, terminated, truncated, info


class ClipReward(EnvWrapper):
    """Limits rewards to a range."""

    def __init__(self, env: gymnasium.Env, low: float = -0.1, high: float = 5.0):
        super().__init__(env)
        self._low, self._high = low, high

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and clips the reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, min(max(float(reward), self._low), self._high), terminated, truncated, info


class SkipFrames(EnvWrapper):
    """Repeats each action for `skip` frames, or until the episode ends, and sums the rewards."""

    def __init__(self, env: gymnasium.Env, skip: int = 4):
        super().__init__(env)
        if skip < 1:
            raise ValueError(f"An action lasts at least one frame, not {skip}; use --env_frameskip=1.")
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps up to `skip` times; `num_frames` in `info` says how many frames that took."""
        frames, total = 0, 0.0
        for _ in range(self._skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            frames += info.get(NUM_FRAMES, 1)
            if terminated or truncated:
                break
        info[NUM_FRAMES] = frames
        return obs, total, terminated, truncated, info


class TimeLimit(EnvWrapper):
    """Truncates an episode once it has taken `limit` frames, give or take `variation`."""

    def __init__(self, env: gymnasium.Env, limit: int, variation: int = 0):
        super().__init__(env)
        self._limit, self._variation = limit, variation
        self._rng = np.random.default_rng()
        self._frames, self._episode_limit = 0, limit

    @property
    def remaining(self) -> float:
        """The fraction of this episode's time that is left, from 1 to 0."""
        return max(0.0, 1.0 - self._frames / self._episode_limit)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts the clock and draws the limit of this episode."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._frames, self._episode_limit = 0, self._limit
        if self._variation:
            drawn = self._rng.integers(-self._variation, self._variation, endpoint=True)
            self._episode_limit = max(1, self._limit + int(drawn))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps; a time-out is a truncation and leaves `terminated_by_timer` in `info`."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._frames += info.get(NUM_FRAMES, 1)
        if self._frames >= self._episode_limit and not terminated:
            truncated = True
            info[TERMINATED_BY_TIMER] = True
        return obs, reward, terminated, truncated, info


class RemainingTime(EnvWrapper):
    """Adds the fraction of time left to the observation, under `timer`; needs a `TimeLimit` inside."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self._time_limit = _find_time_limit(env)
        inner = env.observation_space
        known = dict(inner.spaces) if isinstance(inner, spaces.Dict) else {"obs": inner}
        self._is_dict = isinstance(inner, spaces.Dict)
        self.observation_space = spaces.Dict({**known, TIMER_KEY: spaces.Box(0.0, 1.0, (1,), np.float32)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Resets; all the time is left."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._with_timer(obs), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and adds what is left of the time."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._with_timer(obs), reward, terminated, truncated, info

    def _with_timer(self, obs: Any) -> dict[str, Any]:
        known = obs if self._is_dict else {"obs": obs}
        return {**known, TIMER_KEY: np.array([self._time_limit.remaining], dtype=np.float32)}


def _find_time_limit(env: Any) -> TimeLimit:
    layer = env
    while layer is not None:
        if isinstance(layer, TimeLimit):
            return layer
        layer = vars(layer).get("env")
    raise ValueError(
        f"RemainingTime needs sample_factory's TimeLimit inside {env}; wrap it with TimeLimit first."
    )
