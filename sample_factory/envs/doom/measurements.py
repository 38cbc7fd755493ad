"""What a player reads off the status bar, as 23 numbers next to the picture.

Used by the battle and deathmatch specs; the `vizdoom` encoder feeds them through layers of their own.

Invariant: every number lies within the bounds of the observation space, whatever the engine reports (to a
player who stood where another one arrived it gives minus a million health).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.wrappers import EnvWrapper

MEASUREMENTS = "measurements"  # observation key

NUM_WEAPONS = 8
AMMO_SCALE, MAX_AMMO = 15.0, 5.0
LOW = np.array([0, 0, -1, -1, -50, 0, 0, *[0] * NUM_WEAPONS, *[0] * NUM_WEAPONS], np.float32)
HIGH = np.array([20, 50, 50, 50, 50, 1, 10, *[5] * NUM_WEAPONS, *[50] * NUM_WEAPONS], np.float32)

WEAPON_VARIABLES = tuple(f"WEAPON{k}" for k in range(NUM_WEAPONS))
AMMO_VARIABLES = tuple(f"AMMO{k}" for k in range(NUM_WEAPONS))


class Measurements(EnvWrapper):
    """Observes `{"obs": picture, "measurements": [23]}`."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.observation_space = spaces.Dict(
            {"obs": env.observation_space, MEASUREMENTS: spaces.Box(LOW, HIGH, dtype=np.float32)}
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Resets and adds the measurements."""
        obs, info = self.env.reset(seed=seed, options=options)
        return {"obs": obs, MEASUREMENTS: measurements_of(info)}, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and adds the measurements."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return {"obs": obs, MEASUREMENTS: measurements_of(info)}, reward, terminated, truncated, info


def measurements_of(info: Mapping[str, Any]) -> np.ndarray:
    """The 23 numbers, scaled; variables the scenario does not report count as 0, the players as 1."""
    read = info.get
    values = [
        read("SELECTED_WEAPON", 0.0),
        _ammo(read("SELECTED_WEAPON_AMMO", 0.0)),
        read("HEALTH", 0.0) / 30.0,
        read("ARMOR", 0.0) / 30.0,
        read("USER2", 0.0) / 10.0,  # kills in the battle scenarios
        read("ATTACK_READY", 0.0),
        read("PLAYER_COUNT", 1.0) / 5.0,
    ]
    values += [read(name, 0.0) for name in WEAPON_VARIABLES]
    values += [_ammo(read(name, 0.0)) for name in AMMO_VARIABLES]
    # np.clip costs several times as much on arrays this small.
    return np.minimum(np.maximum(np.array(values, np.float32), LOW), HIGH)


def _ammo(amount: float) -> float:
    return min(amount / AMMO_SCALE, MAX_AMMO)
