"""Keeps keys and passwords in the environment: out of manifests, scripts and command lines.

`jobs` refuses commands that hold a secret; everything that writes variables to a file asks here first.
Invariant: the value of a variable named like a secret is never written to a file by the launcher.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from sample_factory.config.redaction import is_secret
from sample_factory.runner.errors import RunnerError

BLANK = "***"
_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
# Shorter values are switches such as "1", which occur in any command.
_SHORTEST_SECRET = 8


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name may hold a secret."""
    return _SECRET_VARIABLE.search(name) is not None


def without_values(env: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be written down: secrets keep only their names."""
    return {name: BLANK if is_secret_variable(name) else value for name, value in env.items()}


def writable(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that may appear in scripts."""
    return {name: value for name, value in env.items() if not is_secret_variable(name)}


def secret_names(env: Iterable[str]) -> list[str]:
    """The variables that scripts may only mention by name."""
    return sorted(name for name in env if is_secret_variable(name))


def check_command(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse a command that holds a secret, because commands are recorded and every user can list them.

    Raises:
        RunnerError: naming the flag or the variable, never the value.
    """
    for token in argv:
        flag, separator, _ = token.partition("=")
        if separator and is_secret(flag.lstrip("-")):
            raise RunnerError(
                f"{flag} is a secret and would be recorded; export it as an environment variable instead, "
                f"for example {flag.lstrip('-').upper()}."
            )
    text = " ".join(argv)
    for name, value in {**os.environ, **env}.items():
        if is_secret_variable(name) and len(value) >= _SHORTEST_SECRET and value in text:
            raise RunnerError(
                f"A command holds the value of {name}, which is a secret; leave it out, jobs have it anyway."
            )


def redacted(argv: Sequence[str]) -> list[str]:
    """A command line of our own with the values of secret flags blanked."""
    kept: list[str] = []
    for index, token in enumerate(argv):
        flag, separator, _ = token.partition("=")
        if _is_secret_flag(token) and separator:
            kept.append(f"{flag}={BLANK}")
        else:
            kept.append(BLANK if index and _is_value_of_secret(argv[index - 1]) else token)
    return kept


def stripped(argv: Sequence[str]) -> list[str]:
    """A command line of our own without its secret flags, for a process that has them in its environment."""
    return [
        token
        for index, token in enumerate(argv)
        if not _is_secret_flag(token) and not (index and _is_value_of_secret(argv[index - 1]))
    ]


def _is_secret_flag(token: str) -> bool:
    return token.startswith("-") and is_secret(token.partition("=")[0].lstrip("-"))


def _is_value_of_secret(previous: str) -> bool:
    return _is_secret_flag(previous) and "=" not in previous
