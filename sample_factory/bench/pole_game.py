"""A game that runs in a process of its own, as simulators written by others do: a pole on a cart.

Started by `fault_envs.GameEnv` as a script; reads one byte a frame (0 left, 1 right, 2 new episode) and
answers with a `FRAME`. Standard library only, so that it starts in milliseconds. The equations are those of
Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning control
problems"; the rules (500 frames, 12 degrees, 2.4 units) are those of CartPole-v1.

Invariant: it ends when its owner does, however the owner ends.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import signal
import struct

FRAME = struct.Struct("<4f2B")  # position, velocity, angle, angular velocity; terminated, truncated
NEW_EPISODE = 2
TITLE = "sf_game"
FRAMES_PER_EPISODE = 500
_GRAVITY, _FORCE, _SECONDS = 9.8, 10.0, 0.02
_CART, _POLE, _HALF_LENGTH = 1.0, 0.1, 0.5
_MAX_POSITION, _MAX_ANGLE = 2.4, math.radians(12)
_PR_SET_PDEATHSIG = 1


class PoleGame:
    """The state of one game."""

    def __init__(self) -> None:
        self._random = random.Random()
        self._state = [0.0] * 4
        self._frames = 0

    def play(self, command: int) -> bytes:
        """One frame."""
        if command == NEW_EPISODE:
            self._state = [self._random.uniform(-0.05, 0.05) for _ in range(4)]
            self._frames = 0
            return FRAME.pack(*self._state, False, False)
        self._move(_FORCE if command == 1 else -_FORCE)
        self._frames += 1
        fallen = abs(self._state[0]) > _MAX_POSITION or abs(self._state[2]) > _MAX_ANGLE
        return FRAME.pack(*self._state, fallen, not fallen and self._frames >= FRAMES_PER_EPISODE)

    def _move(self, force: float) -> None:
        position, velocity, angle, spin = self._state
        total, sine, cosine = _CART + _POLE, math.sin(angle), math.cos(angle)
        push = (force + _POLE * _HALF_LENGTH * spin * spin * sine) / total
        turn = (_GRAVITY * sine - cosine * push) / (
            _HALF_LENGTH * (4.0 / 3.0 - _POLE * cosine * cosine / total)
        )
        acceleration = push - _POLE * _HALF_LENGTH * turn * cosine / total
        self._state = [
            position + _SECONDS * velocity,
            velocity + _SECONDS * acceleration,
            angle + _SECONDS * spin,
            spin + _SECONDS * turn,
        ]


def main() -> None:
    """Plays until its owner closes the pipe or dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the owner's business
    with open("/proc/self/comm", "w") as title:
        title.write(TITLE)
    game = PoleGame()
    while command := os.read(0, 1):
        os.write(1, game.play(command[0]))


if __name__ == "__main__":
    main()
