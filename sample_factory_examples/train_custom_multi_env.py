"""Trains on your own environment with several agents.

    python -m sample_factory_examples.train_custom_multi_env --algo=APPO --env=my_custom_multi_env_v1

A multi-agent environment speaks in lists with one entry per agent, and starts the next episode by itself.
Here two agents play a matrix game in which they do best when they act alike. Now and then one of them loses
control for a while: it acts at random, and `is_active` in its `info` says that nothing is to be learned.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import IS_ACTIVE, EnvConfig
from sample_factory.envs.registry import register_env
from sample_factory.model.encoders import register_custom_encoder
from sample_factory.run_algorithm import run_algorithm
from sample_factory_examples.train_custom_env_custom_model import CustomEncoder

PAYOFFS = {(0, 0): (-0.1, -0.1), (0, 1): (-0.2, -0.2), (1, 0): (-0.2, -0.25), (1, 1): (-0.1, -0.1)}
LOSE_CONTROL_PROBABILITY = 0.005
LONGEST_LOSS_STEPS = 48

MultiStep = tuple[list[np.ndarray], list[float], list[bool], list[bool], list[dict[str, Any]]]


class CustomMultiEnv(gymnasium.Env[Any, Any]):
    """Two agents, two actions; `observation_space` and `action_space` are those of one agent."""

    num_agents = 2
    is_multiagent = True

    def __init__(self, episode_len: int):
        self.observation_space = spaces.Box(0.0, 1.0, (1, 8, 8), np.float32)
        self.action_space = spaces.Discrete(2)
        self._episode_len = episode_len
        self._steps = 0
        self._without_control = [0] * self.num_agents  # steps left; goes on over the end of an episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[np.ndarray], Any]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), [{} for _ in range(self.num_agents)]

    def step(self, action: list[int]) -> MultiStep:  # type: ignore[override]  # lists: one entry per agent
        """Plays one round; after the last one the observations are already those of the next episode."""
        active = [self._has_control(agent) for agent in range(self.num_agents)]
        played = [
            int(a) if free else int(self.np_random.integers(2))
            for a, free in zip(action, active, strict=True)
        ]
        self._steps += 1
        ended = self._steps >= self._episode_len
        infos: list[dict[str, Any]] = [{IS_ACTIVE: free} for free in active]
        if ended:
            self.reset()
        rewards = list(PAYOFFS[played[0], played[1]])
        return self._observe(), rewards, [ended] * self.num_agents, [False] * self.num_agents, infos

    def _has_control(self, agent: int) -> bool:
        if self._without_control[agent] > 0:
            self._without_control[agent] -= 1
        elif self.np_random.random() < LOSE_CONTROL_PROBABILITY:
            self._without_control[agent] = int(self.np_random.integers(1, LONGEST_LOSS_STEPS, endpoint=True))
        return self._without_control[agent] == 0

    def _observe(self) -> list[np.ndarray]:
        return [self.np_random.random((1, 8, 8), dtype=np.float32) for _ in range(self.num_agents)]


def make_custom_multi_env(
    full_env_name: str, cfg: Config, env_config: EnvConfig | None = None
) -> CustomMultiEnv:
    """Makes one environment."""
    return CustomMultiEnv(cfg.custom_env_episode_len)


def add_custom_multi_env_flags(env_name: str, parser: ArgumentParser) -> None:
    """Flags that exist whenever this environment is chosen."""
    parser.add_argument("--custom_env_episode_len", default=10, type=int, help="Steps in an episode.")


def override_custom_multi_env_defaults(env_name: str, parser: ArgumentParser) -> None:
    """Defaults that suit this environment; what is typed still wins."""
    parser.set_defaults(encoder_custom="custom_env_encoder", hidden_size=128)


def register_custom_components() -> None:
    """Makes the environment and the encoder known; training and evaluation both need it."""
    register_env(
        "my_custom_multi_env_",
        make_custom_multi_env,
        add_custom_multi_env_flags,
        override_custom_multi_env_defaults,
    )
    register_custom_encoder("custom_env_encoder", CustomEncoder)


def main() -> int:
    """Trains as the command line says; returns the exit status."""
    register_custom_components()
    return run_algorithm(parse_args())


if __name__ == "__main__":
    sys.exit(main())
