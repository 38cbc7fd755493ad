"""Takes gymnasium's checks off an environment that has started.

`gymnasium.make` wraps an environment in two layers which look at the first reset and the first step and then
pass every call on for good; and many environments ask their action space about every action, which takes a
fifth of a step of CartPole. Policies only choose what the space has.

Invariant: everything else between the outermost layer and the simulator stays in its place, and a space gives
the answers it always gave.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

_CHECKERS = (OrderEnforcing, PassiveEnvChecker)


def without_checkers(env: Any) -> Any:
    """The environment with its inner layers relinked; another one if the outermost layer was a checker."""
    env = _below_checkers(env)
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        below = _below_checkers(layer.env)
        if below is not layer.env:
            layer.env = below
        layer = below
    _answer_quickly(getattr(layer, "action_space", None))
    return env


def _below_checkers(env: Any) -> Any:
    while type(env) in _CHECKERS:
        env = env.env
    return env


def _answer_quickly(space: Any) -> None:
    """Lets a Discrete space compare numbers of its own type with its bounds, and nothing more."""
    if type(space) is not spaces.Discrete or "contains" in vars(space):
        return
    kind, first, end = space.dtype.type, int(space.start), int(space.start + space.n)
    contains = space.contains

    def contains_quickly(x: Any) -> bool:
        return bool(first <= x < end) if type(x) is kind else contains(x)

    space.contains = contains_quickly  # type: ignore[method-assign]
