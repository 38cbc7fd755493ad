"""Doom's action spaces, and how an action becomes a list of button values.

A scenario names the engine's buttons in order; an action space covers them head by head: `Discrete(n)` holds
one of n-1 buttons or none, `Discretized` and `Box` feed one button that takes a number (turn by a delta).

Invariant: `ButtonEncoder` gives exactly one value per button of the scenario, in the scenario's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sample_factory.envs.spaces import Discretized, UnsupportedSpaceError

CONTINUOUS_SCALE = 7.5  # degrees a frame at the end of a Box's range

TURN = ("TURN_LEFT", "TURN_RIGHT")
WALK = ("MOVE_FORWARD", "MOVE_BACKWARD")
STRAFE = ("MOVE_RIGHT", "MOVE_LEFT")
WEAPONS = tuple(f"SELECT_WEAPON{k}" for k in range(1, 8))
TURN_DELTA = ("TURN_LEFT_RIGHT_DELTA",)

BASIC_BUTTONS = (*TURN, *WALK)
TURN_ATTACK_BUTTONS = (*TURN, "ATTACK")
EXTENDED_BUTTONS = (*TURN, *WALK, "MOVE_LEFT", "MOVE_RIGHT", "ATTACK")
NO_WEAPON_BUTTONS = (*WALK, *STRAFE, "ATTACK", "SPEED", *TURN_DELTA)
FULL_BUTTONS = (*WALK, *STRAFE, *WEAPONS, "ATTACK", "SPEED", *TURN_DELTA)
FULL_USE_BUTTONS = (*WALK, *STRAFE, *WEAPONS, "ATTACK", "SPEED", "USE", *TURN_DELTA)
MIXED_BUTTONS = (*WALK, *STRAFE, "SELECT_PREV_WEAPON", "SELECT_NEXT_WEAPON", "ATTACK", "SPEED", *TURN_DELTA)
BENCHMARK_BUTTONS = (*WALK, *STRAFE, "TURN_RIGHT", "TURN_LEFT", "ATTACK", "SPEED")


def basic() -> spaces.Tuple:
    """Turn and walk."""
    return _tuple(3, 3)


def turn_attack() -> spaces.Tuple:
    """Turn and shoot."""
    return _tuple(3, 2)


def extended() -> spaces.Tuple:
    """Turn, walk, strafe and shoot."""
    return _tuple(3, 3, 3, 2)


def discretized_no_weapon() -> spaces.Tuple:
    """Walk, strafe, shoot, sprint, and turn by one of 11 angles."""
    return _tuple(3, 3, 2, 2, Discretized(11, -10.0, 10.0))


def full_discretized(with_use: bool = False) -> spaces.Tuple:
    """Walk, strafe, choose a weapon, shoot, sprint, open doors if asked, and turn by one of 21 angles."""
    switches = (2, 2, 2) if with_use else (2, 2)
    return _tuple(3, 3, 8, *switches, Discretized(21, -12.5, 12.5))


def mixed() -> spaces.Tuple:
    """Walk, strafe, previous or next weapon, shoot, sprint, and turn by any angle."""
    return _tuple(3, 3, 3, 2, 2, spaces.Box(-1.0, 1.0, (1,), np.float32))


class ButtonEncoder:
    """Turns actions of one space into the engine's list of button values."""

    def __init__(self, space: spaces.Space[Any]):
        parts: Sequence[spaces.Space[Any]] = space.spaces if isinstance(space, spaces.Tuple) else (space,)
        self._heads = [_head(part) for part in parts]
        self.num_buttons = sum(len(head(0)) for head in self._heads)
        self._single = not isinstance(space, spaces.Tuple)

    def __call__(self, action: Any) -> list[float]:
        """One value per button.

        Args:
            action: an element of the space, or a flat array with one number per head.
        """
        if self._single:
            return self._heads[0](action)
        buttons: list[float] = []
        for head, choice in zip(self._heads, action, strict=True):
            buttons += head(choice)
        return buttons


def _tuple(*heads: int | spaces.Space[Any]) -> spaces.Tuple:
    return spaces.Tuple([spaces.Discrete(head) if isinstance(head, int) else head for head in heads])


def _head(space: spaces.Space[Any]) -> Callable[[Any], list[float]]:
    if isinstance(space, Discretized):
        return _lookup([[space.to_continuous(k)] for k in range(int(space.n))])
    if isinstance(space, spaces.Discrete):
        buttons = int(space.n) - 1
        return _lookup([[float(k == choice) for k in range(1, buttons + 1)] for choice in range(buttons + 1)])
    if isinstance(space, spaces.Box) and space.shape == (1,):
        low, high = float(space.low[0]), float(space.high[0])
        # A Gaussian policy knows no bounds.
        return lambda value: [min(max(float(np.ravel(value)[0]), low), high) * CONTINUOUS_SCALE]
    raise UnsupportedSpaceError(
        f"Doom cannot turn {space} into buttons: use Discrete, Discretized, Box(-1, 1, (1,)), or a Tuple."
    )


def _lookup(rows: list[list[float]]) -> Callable[[Any], list[float]]:
    # int() so that a row of a float array and a numpy integer serve as well as a Python one.
    return lambda choice: rows[int(choice)]
