"""Which environment family a name belongs to, and how people add their own.

Config parsing asks it for a family's settings and defaults; `make.make_env` asks it for the constructor.
Names are matched by prefix, first match wins: first what users registered, in order of registration, then
the built-in families. A family may be given as a promise (text or a callable) that is kept on first use.

Invariant: importing this module imports neither gymnasium nor torch nor any simulator.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sample_factory.envs.families import BUILT_IN_FAMILIES
from sample_factory.envs.make_function import (
    MakeEnv,
    SingleOfVectorFunction,
    VectorMakeFunction,
    adapt_make_function,
    makes_vectors,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from sample_factory.config.setting import Setting
    from sample_factory.envs.extra_summaries import ExtraSummaries

LegacyCallback = Callable[[str, "ArgumentParser"], Any]  # v1's `f(env_name, parser)`


class UnknownEnvError(RuntimeError):
    """No family matches the environment's name, or its family knows no such environment."""


class MissingPackageError(ImportError):
    """A family is known, but the package that brings its environments is not installed."""


@dataclass(frozen=True)
class EnvFamily:
    """Environments that share a prefix, a constructor and a set of flags.

    Args:
        prefix: names beginning with it belong to this family.
        make_env: `(name, cfg, env_config, render_mode) -> env`; see `contract` for what comes back.
        settings: the family's own flags.
        defaults: values that replace the general defaults, or a function of the name that gives them.
        add_flags: v1-style callback `f(env_name, parser)` that adds flags.
        override_defaults: v1-style callback `f(env_name, parser)` that changes defaults.
        extra: the pip extra that brings the simulator, for the message when it is missing.
        package: the module that must be importable before `make_env` is called.
        make_vector_env: `(name, cfg, num_envs)` gives what `batched.as_batched` takes, for families that can
            step many environments in one call, or None for an environment that cannot.
        extra_summaries: `(cfg) -> ExtraSummaries`, for families with statistics over many episodes.
    """

    prefix: str
    make_env: MakeEnv
    settings: tuple[Setting, ...] = ()
    defaults: Mapping[str, Any] | Callable[[str], Mapping[str, Any]] = field(default_factory=dict)
    add_flags: LegacyCallback | None = None
    override_defaults: LegacyCallback | None = None
    extra: str = ""
    package: str = ""
    make_vector_env: Callable[[str, Any, int], Any] | None = None
    extra_summaries: Callable[[Any], ExtraSummaries] | None = None

    def defaults_for(self, env_name: str) -> Mapping[str, Any]:
        """The defaults this family sets for one environment."""
        return self.defaults(env_name) if callable(self.defaults) else self.defaults


FamilySource = EnvFamily | str | Callable[[], Any]  # a family, or the promise of one


class EnvRegistry:
    """Families by prefix; one lives in this module, `global_env_registry()` gives it out."""

    def __init__(self, built_in: Mapping[str, FamilySource] = BUILT_IN_FAMILIES):
        self._built_in: dict[str, FamilySource] = dict(built_in)
        self._user: dict[str, FamilySource] = {}

    def register_env(
        self,
        env_name_prefix: str,
        make_env_func: Callable[..., Any],
        add_extra_params_func: LegacyCallback | None = None,
        override_default_params_func: LegacyCallback | None = None,
    ) -> None:
        """Registers a family under v1's argument names; registering a prefix again replaces it."""
        self.register_family(
            _family_of(env_name_prefix, make_env_func, add_extra_params_func, override_default_params_func)
        )

    def register_env_deferred(
        self, env_name_prefix: str, register_env_deferred_func: str | Callable[[], Any]
    ) -> None:
        """Registers the promise of a family, kept when the prefix is first used.

        Args:
            env_name_prefix: names beginning with it belong to the family.
            register_env_deferred_func: `"module:attribute"` of an `EnvFamily`, or a function that returns an
                `EnvFamily` or v1's triple `(make_env, add_flags or None, override_defaults or None)`.
        """
        self._user[_checked(env_name_prefix)] = register_env_deferred_func

    def register_family(self, family: EnvFamily) -> None:
        """Registers a complete family."""
        self._user[_checked(family.prefix)] = family

    def unregister(self, prefix: str) -> None:
        """Forgets what a user registered under a prefix; a built-in family of that prefix shows again."""
        self._user.pop(prefix, None)

    def prefixes(self) -> tuple[str, ...]:
        """Every known prefix in match order."""
        return tuple(dict.fromkeys([*self._user, *self._built_in]))

    def family_for(self, env_name: str) -> EnvFamily:
        """The family an environment's name belongs to.

        Raises:
            UnknownEnvError: no prefix matches.
        """
        for families in (self._user, self._built_in):
            for prefix, source in families.items():
                if env_name.startswith(prefix):
                    families[prefix] = family = _resolve(prefix, source)
                    return family
        raise UnknownEnvError(_unknown_message(env_name, self.prefixes()))

    def user_registrations(self) -> dict[str, FamilySource]:
        """What users registered, so that a new process can be given the same with `restore`."""
        return dict(self._user)

    def restore(self, registrations: Mapping[str, FamilySource]) -> None:
        """Replaces all user registrations by those of `user_registrations`."""
        self._user = dict(registrations)


_REGISTRY = EnvRegistry()


def global_env_registry() -> EnvRegistry:
    """The registry of this process."""
    return _REGISTRY


def register_env(
    prefix: str,
    make_env_func: Callable[..., Any],
    add_extra_params_func: LegacyCallback | None = None,
    override_default_params_func: LegacyCallback | None = None,
) -> None:
    """Makes environments whose names begin with `prefix` known to every entry point.

    Args:
        prefix: such as `"my_env_"`; it wins over a built-in family that matches the same name.
        make_env_func: `(full_env_name, cfg=None, env_config=None)`, optionally with `render_mode=None`; one
            that also takes `num_envs` returns a gymnasium VectorEnv, which is stepped as one.
        add_extra_params_func: `f(env_name, parser)` that adds flags with `parser.add_argument`.
        override_default_params_func: `f(env_name, parser)` that calls `parser.set_defaults`.
    """
    _REGISTRY.register_env(prefix, make_env_func, add_extra_params_func, override_default_params_func)


def register_env_deferred(prefix: str, module_or_callable: str | Callable[[], Any]) -> None:
    """Like `register_env`, but the family is imported when it is first used."""
    _REGISTRY.register_env_deferred(prefix, module_or_callable)


def register_family(family: EnvFamily) -> None:
    """Like `register_env`, for a family described in full (settings, defaults, vector constructor)."""
    _REGISTRY.register_family(family)


def unregister(prefix: str) -> None:
    """Forgets what was registered under a prefix."""
    _REGISTRY.unregister(prefix)


def registered_prefixes() -> tuple[str, ...]:
    """Every known prefix in match order."""
    return _REGISTRY.prefixes()


def family_for(env_name: str) -> EnvFamily:
    """The family an environment's name belongs to; `UnknownEnvError` when there is none."""
    return _REGISTRY.family_for(env_name)


@contextmanager
def temporary_registrations() -> Iterator[EnvRegistry]:
    """Whatever is registered inside the block is forgotten at its end."""
    before = _REGISTRY.user_registrations()
    try:
        yield _REGISTRY
    finally:
        _REGISTRY.restore(before)


def _checked(prefix: str) -> str:
    if not prefix:
        raise ValueError("An environment family needs a non-empty prefix such as 'my_env_'.")
    return prefix


def _resolve(prefix: str, source: FamilySource) -> EnvFamily:
    if isinstance(source, EnvFamily):
        return source
    found = _import_attribute(prefix, source) if isinstance(source, str) else source()
    if isinstance(found, EnvFamily):
        # The prefix under which it was registered is the one names are matched by.
        return found if found.prefix == prefix else replace(found, prefix=prefix)
    return _family_of(prefix, *found)


def _family_of(
    prefix: str,
    make_env_func: Callable[..., Any],
    add_flags: LegacyCallback | None,
    override_defaults: LegacyCallback | None,
) -> EnvFamily:
    """A family from v1's three functions; what a constructor with `num_envs` makes is stepped as one."""
    callbacks: dict[str, Any] = {"add_flags": add_flags, "override_defaults": override_defaults}
    if makes_vectors(make_env_func):
        single, vector = SingleOfVectorFunction(make_env_func), VectorMakeFunction(make_env_func)
        return EnvFamily(prefix, single, make_vector_env=vector, **callbacks)
    return EnvFamily(prefix, adapt_make_function(make_env_func), **callbacks)


def _import_attribute(prefix: str, path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UnknownEnvError(
            f"Environments named {prefix}* need the module {module_name}, which this installation lacks."
        ) from error
    return getattr(module, attribute or "FAMILY")


def _unknown_message(env_name: str, prefixes: tuple[str, ...]) -> str:
    suggestion = _suggestion(env_name, prefixes)
    hint = f" (did you mean --env={suggestion}?)" if suggestion else ""
    return (
        f"No environment family matches --env={env_name}{hint}; known prefixes are {', '.join(prefixes)}, "
        "and sample_factory.envs.registry.register_env(prefix, make_env_func) adds your own."
    )


def _suggestion(env_name: str, prefixes: tuple[str, ...]) -> str | None:
    """The name with its prefix put right, or None when nothing is near."""
    head, separator, rest = env_name.partition("_")
    nearest = difflib.get_close_matches(head + separator, prefixes, n=1, cutoff=0.7)
    if separator and nearest:
        return nearest[0] + rest
    for prefix in prefixes:
        if env_name.lower().startswith(prefix.lower()):
            return prefix + env_name[len(prefix) :]
    # Only gymnasium ids end in a version, and leaving out `gym_` is the likely slip.
    return f"gym_{env_name}" if re.search(r"-v\d+$", env_name) else None
