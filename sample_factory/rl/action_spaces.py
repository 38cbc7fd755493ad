"""How an action space becomes columns of an array, and how the array becomes actions again.

An action of any space is one row of float32 numbers; discrete choices are counted from 0. Rollout workers use
`to_env_actions`; `distributions` builds on `action_heads`. Invariant: no torch here, and columns follow the
order of the space's members.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Head(NamedTuple):
    """One independent part of an action: a choice out of `size`, one bit, or `size` real numbers."""

    kind: Literal["categorical", "bernoulli", "gaussian"]
    size: int

    @property
    def num_parameters(self) -> int:
        """Logits, or means and logarithms of standard deviations."""
        return 2 * self.size if self.kind == "gaussian" else self.size

    @property
    def num_actions(self) -> int:
        """Columns of the action array."""
        return self.size if self.kind == "gaussian" else 1


def action_heads(space: spaces.Space) -> tuple[Head, ...]:
    """The independent parts of an action, in the order of their columns.

    Raises:
        ValueError: the space is none of Discrete, MultiDiscrete, MultiBinary, 1-D float Box, Tuple of these.
    """
    if isinstance(space, spaces.Discrete):
        return (Head("categorical", int(space.n)),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(Head("categorical", n) for n in space.nvec.ravel().tolist())
    if isinstance(space, spaces.MultiBinary):
        return (Head("bernoulli", 1),) * _size_of(space)
    if isinstance(space, spaces.Box):
        _check_box(space)
        return (Head("gaussian", _size_of(space)),)
    if isinstance(space, spaces.Tuple):
        return tuple(head for member in space.spaces for head in _member_heads(member))
    raise ValueError(
        f"Action space {space} is not supported: use Discrete, MultiDiscrete, MultiBinary, "
        "a one-dimensional float Box, or a Tuple of these."
    )


def num_actions(space: spaces.Space) -> int:
    """Columns an action takes in the action array."""
    return sum(head.num_actions for head in action_heads(space))


def num_action_parameters(space: spaces.Space) -> int:
    """Numbers the network must give to describe the distribution over actions."""
    return sum(head.num_parameters for head in action_heads(space))


def to_env_actions(action_space: spaces.Space, actions: NDArray[Any]) -> list[Any] | NDArray[Any]:
    """Turns rows of the action array into what `env.step` takes, one entry per agent.

    Real-valued actions are not clipped to the bounds of their Box. The results do not share memory with
    `actions`, so an environment may keep them.

    Args:
        action_space: the space of one agent.
        actions: `[agents, num_actions(action_space)]`.
    """
    if isinstance(action_space, spaces.Tuple):
        columns = []
        start = 0
        for member in action_space.spaces:
            stop = start + num_actions(member)
            columns.append(to_env_actions(member, actions[:, start:stop]))
            start = stop
        return list(zip(*columns, strict=True))
    if isinstance(action_space, spaces.Discrete):
        # Array scalars, as `action_space.sample()` gives them: gymnasium checks those faster than ints.
        return list(actions[:, 0].astype(action_space.dtype) + action_space.start)
    typed: NDArray[Any] = actions.astype(action_space.dtype).reshape(-1, *(action_space.shape or ()))
    return typed + action_space.start if isinstance(action_space, spaces.MultiDiscrete) else typed


def _member_heads(member: spaces.Space) -> tuple[Head, ...]:
    if isinstance(member, spaces.Tuple):
        raise ValueError(
            f"Action space Tuple({member}) is nested, which is not supported: flatten it into one Tuple."
        )
    return action_heads(member)


def _check_box(space: spaces.Box) -> None:
    if len(space.shape) != 1:
        raise ValueError(
            f"Action space {space} has shape {space.shape}, which is not supported: "
            f"use a one-dimensional Box such as shape ({_size_of(space)},)."
        )
    if not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"Action space {space} holds {space.dtype}, which is not supported: "
            "use dtype float32, or MultiDiscrete for whole numbers."
        )


def _size_of(space: spaces.Space) -> int:
    return int(np.prod(space.shape or ()))
