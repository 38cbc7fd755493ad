"""The one place where configuration meets environment families.

A family brings flags and defaults of its own, but `config` lies below `envs` and must not depend on it: the
registry is looked up late, inside the function, and only this much of a family is known here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sample_factory.config.errors import ConfigError
from sample_factory.config.setting import Setting

ParserCallback = Callable[[str, argparse.ArgumentParser], Any]


class Family(Protocol):
    """What configuration asks of an environment family."""

    @property
    def prefix(self) -> str:
        """The beginning its environments' names share."""

    @property
    def settings(self) -> Sequence[Setting]:
        """Flags that only this family has."""

    @property
    def add_flags(self) -> ParserCallback | None:
        """Declares flags on the parser, as families written for v1 do."""

    @property
    def override_defaults(self) -> ParserCallback | None:
        """Changes defaults on the parser, as families written for v1 do; may set undeclared names."""


def lookup_family(env_name: str) -> tuple[Family, Mapping[str, Any]]:
    """The family of an environment and the defaults it changes for it.

    Raises:
        ConfigError: when no family has that prefix, or the family no such environment.
    """
    from sample_factory.envs import registry

    try:
        family = registry.family_for(env_name)
        return family, family.defaults_for(env_name)
    except registry.UnknownEnvError as error:
        raise ConfigError(str(error)) from error
