"""Environments that stand in for real ones in tests: small, picklable, seeded by `reset(seed=...)`.

Each makes one thing visible that a test wants to see. `register_doubles` makes them known as `double_<name>`,
for tests that go through the registry.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.registry import register_env

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class CountingEnv(gymnasium.Env):
    """Observes how many steps the episode has had; one reward a step; ends after `length` steps."""

    observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 10):
        self.length = length
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action: Any) -> Step:
        self.count += 1
        return self._obs(), 1.0, self.count >= self.length, False, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.count], dtype=np.float32)


class EchoEnv(gymnasium.Env):
    """Observes `(env_id, steps in its life)` and refuses an action that is not an echo of it.

    A row that reached the wrong agent, or twice, or late, cannot go unnoticed.
    """

    observation_space = spaces.Box(0.0, np.inf, (2,), np.float32)
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, env_id: int = 0, length: int = 7):
        self.env_id, self.length = env_id, length
        self.life = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action: Any) -> Step:
        if not np.array_equal(action, self._obs()):
            raise AssertionError(f"env {self.env_id} observed {self._obs()} and was sent {action}")
        self.life += 1
        return self._obs(), float(self.life), self.life % self.length == 0, False, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.env_id, self.life], dtype=np.float32)


class MemoryEnv(gymnasium.Env):
    """Shows a cue at the start that must be repeated at the end; nothing in between tells it.

    Observation `[cue is 0, cue is 1, now is the time]`; without memory half of the answers are wrong.
    """

    observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, delay: int = 3):
        self.delay = delay
        self.cue = 0
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.cue = int(self.np_random.integers(2))
        self.count = 0
        return self._obs(), {}

    def step(self, action: Any) -> Step:
        answered = self.count == self.delay
        reward = float(answered and int(action) == self.cue)
        self.count += 1
        return self._obs(), reward, answered, False, {}

    def _obs(self) -> np.ndarray:
        obs = np.zeros(3, dtype=np.float32)
        if self.count == 0:
            obs[self.cue] = 1.0
        obs[2] = self.count == self.delay
        return obs


class ContinuousTargetEnv(gymnasium.Env):
    """The best action is the mean of the observation; the reward is minus the squared distance to it."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, length: int = 16):
        self.length = length
        self.count = 0
        self.obs = np.zeros(2, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self._draw(), {}

    def step(self, action: Any) -> Step:
        reward = -float((np.asarray(action).reshape(()) - self.target()) ** 2)
        self.count += 1
        return self._draw(), reward, self.count >= self.length, False, {}

    def target(self) -> float:
        return float(self.obs.mean())

    def _draw(self) -> np.ndarray:
        self.obs = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.obs.copy()


class MultiDiscreteEnv(gymnasium.Env):
    """Two choices at once; each earns 0.5 when it names the bit set in its part of the observation."""

    sizes = (3, 4)
    observation_space = spaces.Box(0.0, 1.0, (7,), np.float32)
    action_space = spaces.MultiDiscrete(sizes)

    def __init__(self, length: int = 16):
        self.length = length
        self.count = 0
        self.wanted = np.zeros(2, dtype=np.int64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self._draw(), {}

    def step(self, action: Any) -> Step:
        reward = 0.5 * float(np.sum(np.asarray(action) == self.wanted))
        self.count += 1
        return self._draw(), reward, self.count >= self.length, False, {}

    def _draw(self) -> np.ndarray:
        self.wanted = self.np_random.integers(self.sizes)
        obs = np.zeros(7, dtype=np.float32)
        obs[self.wanted[0]] = obs[3 + self.wanted[1]] = 1.0
        return obs


class MaskedEnv(gymnasium.Env):
    """Some actions are forbidden at each step: they cost 10, the others give 1."""

    num_actions = 4
    observation_space = spaces.Dict(
        {
            "obs": spaces.Box(0.0, 1.0, (1,), np.float32),
            "action_mask": spaces.Box(0, 1, (num_actions,), np.int8),
        }
    )
    action_space = spaces.Discrete(num_actions)

    def __init__(self, length: int = 8):
        self.length = length
        self.count = 0
        self.mask = np.ones(self.num_actions, dtype=np.int8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self._draw(), {}

    def step(self, action: Any) -> Step:
        reward = 1.0 if self.mask[int(action)] else -10.0
        self.count += 1
        return self._draw(), reward, self.count >= self.length, False, {}

    def _draw(self) -> dict[str, np.ndarray]:
        self.mask = self.np_random.integers(0, 2, self.num_actions).astype(np.int8)
        self.mask[self.np_random.integers(self.num_actions)] = 1  # something is always allowed
        return {
            "obs": np.array([self.count / self.length], dtype=np.float32),
            "action_mask": self.mask.copy(),
        }


class TwoAgentEnv(gymnasium.Env):
    """Two agents win 1 each when they act alike; both episodes end together and start anew by themselves."""

    num_agents = 2
    is_multiagent = True
    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 5):
        self.length = length
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[list, list]:
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), [{}, {}]

    def step(self, actions: Any) -> tuple[list, list, list, list, list]:  # type: ignore[override]
        reward = float(int(actions[0]) == int(actions[1]))
        self.count = (self.count + 1) % self.length
        return self._obs(), [reward] * 2, [self.count == 0] * 2, [False] * 2, [{}, {}]

    def _obs(self) -> list[np.ndarray]:
        return [np.array([agent, self.count / self.length], dtype=np.float32) for agent in range(2)]


class TruncatingEnv(gymnasium.Env):
    """Pays 1 a step and never ends but by its time limit, so every state is worth 1 / (1 - gamma)."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, limit: int = 5):
        self.limit = limit
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return np.ones(1, dtype=np.float32), {}

    def step(self, action: Any) -> Step:
        self.count += 1
        return np.ones(1, dtype=np.float32), 1.0, False, self.count >= self.limit, {}


class CrashEnv(CountingEnv):
    """Raises once it has lived for `crash_step` steps."""

    def __init__(self, crash_step: int = 5, length: int = 10):
        super().__init__(length)
        self.crash_step = crash_step
        self.life = 0

    def step(self, action: Any) -> Step:
        self.life += 1
        if self.life >= self.crash_step:
            raise RuntimeError(f"this environment crashes at step {self.crash_step}")
        return super().step(action)


DOUBLES = {
    "double_counting": CountingEnv,
    "double_echo": EchoEnv,
    "double_memory": MemoryEnv,
    "double_continuous": ContinuousTargetEnv,
    "double_multidiscrete": MultiDiscreteEnv,
    "double_masked": MaskedEnv,
    "double_two_agents": TwoAgentEnv,
    "double_truncating": TruncatingEnv,
    "double_crash": CrashEnv,
}


def make_double(full_env_name: str, cfg: Any = None, env_config: Any = None) -> gymnasium.Env:
    """The double of a name; an `EchoEnv` gets its number from `env_config`."""
    if full_env_name == "double_echo":
        return EchoEnv(env_id=env_config.env_id if env_config is not None else 0)
    return DOUBLES[full_env_name]()


def register_doubles() -> None:
    """Makes every double known to the registry."""
    register_env("double_", make_double)
