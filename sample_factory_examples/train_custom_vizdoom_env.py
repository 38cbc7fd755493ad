"""Trains on a Doom scenario of your own, with a wrapper and a flag of your own.

    python -m sample_factory_examples.train_custom_vizdoom_env --algo=APPO --env=doom_my_custom_env

A scenario is a `.cfg` file of the engine that names a `.wad` file next to it; give its absolute path. The one
used here comes with vizdoom: dodge fireballs by stepping left and right. The environment becomes one of the
Doom family, so the family's flags and defaults apply to it.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.config.setting import Setting
from sample_factory.envs.doom.family import register_additional_doom_env
from sample_factory.envs.doom.specs import DoomSpec
from sample_factory.envs.wrappers import EnvWrapper, TimeLimit
from sample_factory.run_algorithm import run_algorithm


class HealthMatters(EnvWrapper):
    """Subtracts a little for each point of health lost; game variables of the `.cfg` file are in `info`."""

    def __init__(self, env: gymnasium.Env, price: float):
        super().__init__(env)
        self._price = price
        self._health = 100.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._health = info["HEALTH"]
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and charges for the health that was lost."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        lost, self._health = max(0.0, self._health - info["HEALTH"]), info["HEALTH"]
        return obs, float(reward) - self._price * lost, terminated, truncated, info


def time_limit(cfg: Config) -> dict[str, int]:
    """The arguments of `TimeLimit`, from the flag."""
    return {"limit": cfg.my_custom_doom_arg}


SPEC = DoomSpec(
    "doom_my_custom_env",
    "take_cover.cfg",
    spaces.Discrete(3),  # nothing, or one of the two buttons of the file
    reward_scaling=0.01,
    extra_wrappers=((HealthMatters, {"price": 0.5}), (TimeLimit, time_limit)),
)

SETTINGS = (Setting("my_custom_doom_arg", int, 300, "Frames in an episode at most.", minimum=1),)


def register_custom_components() -> None:
    """Makes the environment known; training and evaluation both need it."""
    register_additional_doom_env(SPEC, SETTINGS)


def main() -> int:
    """Trains as the command line says; returns the exit status."""
    register_custom_components()
    return run_algorithm(parse_args())


if __name__ == "__main__":
    sys.exit(main())
