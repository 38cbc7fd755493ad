"""Trains your own network on your own environment, with flags of your own.

    python -m sample_factory_examples.train_custom_env_custom_model --algo=APPO --env=my_custom_env_v1

Copy this file and replace `CustomEnv` and `CustomEncoder`. All names that begin with `my_custom_env_` are
this environment; the part behind the prefix is yours to interpret.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from torch import Tensor, nn

from sample_factory.config.config import Config
from sample_factory.config.parsing import arg_parser, parse_args
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.registry import register_env
from sample_factory.model.encoders import EncoderBase, register_custom_encoder
from sample_factory.model.layers import nonlinearity
from sample_factory.run_algorithm import run_algorithm


class CustomEnv(gymnasium.Env[np.ndarray, int]):
    """Observes noise; the reward is a hundredth of the action's number, so the last action is the best."""

    def __init__(self, num_actions: int, episode_len: int):
        self.observation_space = spaces.Box(0.0, 1.0, (1, 10, 10), np.float32)
        self.action_space = spaces.Discrete(num_actions)  # type: ignore[assignment]  # gymnasium wants np.int64
        self._episode_len = episode_len
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Rewards the action; the episode never ends by itself, only its time runs out (`truncated`)."""
        self._steps += 1
        return self._observe(), 0.01 * int(action), False, self._steps > self._episode_len, {}

    def _observe(self) -> np.ndarray:
        return self.np_random.random((1, 10, 10), dtype=np.float32)


class CustomEncoder(EncoderBase):
    """Two convolutions and a fully connected layer."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict):
        super().__init__(cfg, obs_space)
        channels, height, width = obs_space["obs"].shape or ()
        rows, columns = _after_convolutions(height), _after_convolutions(width)
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 8, kernel_size=3, stride=2),
            nonlinearity(cfg),
            nn.Conv2d(8, 16, kernel_size=2, stride=1),
            nonlinearity(cfg),
            nn.Flatten(),
            nn.Linear(16 * rows * columns, cfg.hidden_size),
            nonlinearity(cfg),
        )
        self.encoder_out_size = cfg.hidden_size

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """[B, channels, height, width] under `obs` -> [B, hidden_size]."""
        encoded: Tensor = self.layers(obs_dict["obs"])
        return encoded


def make_custom_env(full_env_name: str, cfg: Config, env_config: EnvConfig | None = None) -> CustomEnv:
    """Makes one environment; `env_config` says where it will live, None means for a look at its spaces."""
    return CustomEnv(cfg.custom_env_num_actions, cfg.custom_env_episode_len)


def add_custom_env_flags(env_name: str, parser: ArgumentParser) -> None:
    """Flags that exist whenever this environment is chosen."""
    parser.add_argument("--custom_env_num_actions", default=10, type=int, help="Number of actions.")
    parser.add_argument("--custom_env_episode_len", default=1000, type=int, help="Steps in an episode.")


def override_custom_env_defaults(env_name: str, parser: ArgumentParser) -> None:
    """Defaults that suit this environment; what is typed still wins."""
    parser.set_defaults(encoder_custom="custom_env_encoder", hidden_size=128)


def register_custom_components() -> None:
    """Makes the environment and the encoder known; training and evaluation both need it."""
    register_env("my_custom_env_", make_custom_env, add_custom_env_flags, override_custom_env_defaults)
    register_custom_encoder("custom_env_encoder", CustomEncoder)


def custom_parse_args(argv: Sequence[str] | None = None, evaluation: bool = False) -> Config:
    """Parses a command line that may hold a flag of this script."""
    parser = arg_parser(argv, evaluation)
    parser.add_argument("--my_custom_arg", default=42, type=int, help="A flag of this script alone.")
    return parse_args(argv, evaluation, parser)


def main() -> int:
    """Trains as the command line says; returns the exit status."""
    register_custom_components()
    return run_algorithm(custom_parse_args())


def _after_convolutions(size: int) -> int:
    return (size - 3) // 2 + 1 - 1


if __name__ == "__main__":
    sys.exit(main())
