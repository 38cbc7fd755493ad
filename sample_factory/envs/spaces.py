"""Action spaces: the one we add, and which ones the engine can act in.

`Discretized` is used by families whose simulator takes a number but whose policy picks from a few, such as
Doom's turn by an angle. `make.make_env` calls `check_action_space` so that an unsupported space is a sentence
at start-up and not a traceback in a worker.

Invariant: a space accepted here is one `rl.distributions` has a distribution for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


class UnsupportedSpaceError(ValueError):
    """An observation or action space the engine cannot use."""


class Discretized(spaces.Discrete):
    """`n` actions that stand for evenly spaced numbers from `min_action` to `max_action`, ends included."""

    def __init__(self, n: int, min_action: float, max_action: float):
        super().__init__(n)
        if n < 2 or not min_action < max_action:
            raise ValueError(
                f"Discretized needs two actions or more and min_action < max_action, such as "
                f"Discretized(11, -10.0, 10.0), not Discretized({n}, {min_action}, {max_action})."
            )
        self.min_action = min_action
        self.max_action = max_action

    def to_continuous(self, action: int) -> float:
        """The number an action stands for."""
        step = (self.max_action - self.min_action) / (int(self.n) - 1)
        return self.min_action + int(action) * step

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Discretized)
            and super().__eq__(other)
            and (self.min_action, self.max_action) == (other.min_action, other.max_action)
        )

    def __repr__(self) -> str:
        return f"Discretized({self.n}, {self.min_action}, {self.max_action})"


def check_action_space(space: spaces.Space[Any], env_name: str) -> None:
    """Raises `UnsupportedSpaceError` with a sentence unless policies can act in `space`."""
    in_tuple = isinstance(space, spaces.Tuple)
    for part in space.spaces if isinstance(space, spaces.Tuple) else (space,):
        if not _is_supported(part) or (in_tuple and np.any(getattr(part, "start", 0))):
            raise UnsupportedSpaceError(
                f"{env_name} has the action space {part}, which is not supported: use Discrete, "
                "MultiDiscrete, MultiBinary, a one-dimensional float Box, or a Tuple of these without start."
            )


def _is_supported(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Box):
        return len(space.shape) == 1 and bool(np.issubdtype(space.dtype, np.floating))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return len(space.shape) == 1
    return isinstance(space, spaces.Discrete)
