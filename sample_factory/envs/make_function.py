"""Calls constructors of environments written for older signatures in one way.

v1 calls `make(full_env_name, cfg=..., env_config=...)`, later versions add `render_mode=...`. The registry
adapts what users register, so that everything behind it may pass all four. A constructor with an argument
`num_envs` makes vectorised environments, which are stepped as one.

Invariant: an adapted function pickles whenever the user's function does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

MakeEnv = Callable[[str, "Config", "EnvConfig | None", "str | None"], Any]

_OPTIONAL = ("cfg", "env_config", "render_mode")
NUM_ENVS = "num_envs"


@dataclass(frozen=True)
class AdaptedMakeFunction:
    """A user's constructor with the four-argument signature the engine calls."""

    function: Callable[..., Any]
    by_position: tuple[str, ...]  # which of cfg, env_config, render_mode follow the name, in its order
    by_name: tuple[str, ...]

    def __call__(self, name: str, cfg: Config, env_config: EnvConfig | None, render_mode: str | None) -> Any:
        """Passes on as much as the user's function takes."""
        values = {"cfg": cfg, "env_config": env_config, "render_mode": render_mode}
        positional = [values[key] for key in self.by_position]
        return self.function(name, *positional, **{key: values[key] for key in self.by_name})


def adapt_make_function(function: Callable[..., Any]) -> AdaptedMakeFunction:
    """Finds out from the signature which arguments a user's constructor takes.

    Arguments called `cfg`, `env_config` and `render_mode` get what their name says; required ones with other
    names get what is left in this order; `**kwargs` gets cfg and env_config, as v1 passed them.
    """
    if isinstance(function, AdaptedMakeFunction):
        return function
    parameters = list(inspect.signature(function).parameters.values())
    named = {p.name for p in parameters} & set(_OPTIONAL)
    unclaimed = [key for key in _OPTIONAL if key not in named]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:]
    by_position = []
    for parameter in positional:
        if parameter.default is not parameter.empty:
            break
        if parameter.name not in named and not unclaimed:
            raise TypeError(
                f"The environment constructor {function!r} asks for {parameter.name!r}, but it is called "
                "with (full_env_name, cfg, env_config, render_mode) only."
            )
        by_position.append(parameter.name if parameter.name in named else unclaimed.pop(0))
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        named |= {"cfg", "env_config"} & set(unclaimed)
    by_name = tuple(key for key in _OPTIONAL if key in named and key not in by_position)
    return AdaptedMakeFunction(function, tuple(by_position), by_name)


@dataclass(frozen=True)
class VectorMakeFunction:
    """A user's constructor of vectorised environments, as a family's `make_vector_env`."""

    function: Callable[..., Any]

    def __call__(self, name: str, cfg: Config, num_envs: int) -> Any:
        """`num_envs` copies that step in one call."""
        return adapt_make_function(partial(self.function, num_envs=num_envs))(name, cfg, None, None)


@dataclass(frozen=True)
class SingleOfVectorFunction:
    """The same constructor as a family's `make_env`: one copy, for reading spaces and for evaluation."""

    function: Callable[..., Any]

    def __call__(self, name: str, cfg: Config, env_config: EnvConfig | None, render_mode: str | None) -> Any:
        """A batch of one as an ordinary environment."""
        from sample_factory.envs.batched import FirstOfBatch, as_batched

        make = adapt_make_function(partial(self.function, num_envs=1))
        return FirstOfBatch(as_batched(make(name, cfg, env_config, render_mode)), render_mode)


def makes_vectors(function: Callable[..., Any]) -> bool:
    """Whether a user's constructor asks how many copies it shall make."""
    return (
        not isinstance(function, AdaptedMakeFunction) and NUM_ENVS in inspect.signature(function).parameters
    )
