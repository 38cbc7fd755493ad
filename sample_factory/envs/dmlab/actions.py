"""The two discrete action sets of the DMLab-30 experiments.

The simulator takes seven integers per frame; an agent chooses one of 9 or 15 useful combinations. Rows are
(yaw, pitch, strafe, forward, fire, jump, crouch); turning is in pixels per frame, the rest are switches.

Invariant: the order is part of every trained policy and never changes.
"""

from __future__ import annotations

import numpy as np

ACTION_LEN = 7

_FORWARD = (0, 0, 0, 1, 0, 0, 0)
_BACKWARD = (0, 0, 0, -1, 0, 0, 0)
_STRAFE_LEFT = (0, 0, -1, 0, 0, 0, 0)
_STRAFE_RIGHT = (0, 0, 1, 0, 0, 0, 0)
_FIRE = (0, 0, 0, 0, 1, 0, 0)


def _turn(yaw: int, forward: int = 0) -> tuple[int, ...]:
    return (yaw, 0, 0, forward, 0, 0, 0)


def _look(pitch: int) -> tuple[int, ...]:
    return (0, pitch, 0, 0, 0, 0, 0)


BASIC_ACTIONS: tuple[tuple[int, ...], ...] = (
    _FORWARD,
    _BACKWARD,
    _STRAFE_LEFT,
    _STRAFE_RIGHT,
    _turn(-20),
    _turn(20),
    _turn(-20, forward=1),
    _turn(20, forward=1),
    _FIRE,
)

EXTENDED_ACTIONS: tuple[tuple[int, ...], ...] = (
    _FORWARD,
    _BACKWARD,
    _STRAFE_LEFT,
    _STRAFE_RIGHT,
    _turn(-10),
    _turn(10),
    _turn(-60),
    _turn(60),
    _look(10),
    _look(-10),
    _turn(-10, forward=1),
    _turn(10, forward=1),
    _turn(-60, forward=1),
    _turn(60, forward=1),
    _FIRE,
)


def action_set(extended: bool) -> np.ndarray:
    """The rows an agent chooses from, `[actions, 7]`, in the one dtype the simulator accepts."""
    return np.array(EXTENDED_ACTIONS if extended else BASIC_ACTIONS, dtype=np.intc)
