"""Keeps keys and passwords out of files.

No setting of ours holds a secret, but a family or a script may declare one. Whatever is named like one is
left out of cfg.json and blanked in the recorded command line; the value stays usable in memory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

_SECRET_NAME = re.compile(
    r"(^|_)(api_?key|(auth|access)?_?token|secret(_key)?|passw(or)?d|credentials?)$", re.I
)
_BLANK = "***"
_NEEDS_QUOTES = re.compile(r"[\s'\"\\]")
_VALUE = r"(?P<value>[^\s\"',}]+)"
_WRITTEN_SECRETS = (
    # API_KEY=x, --api_key=x, "api_key": "x"; then --api_key x: "the token expired" is only a sentence.
    re.compile(rf"(?P<before>(?P<name>[A-Za-z][\w-]*)[\"']?\s*[=:]\s*[\"']?){_VALUE}"),
    re.compile(rf"(?P<before>--(?P<name>[A-Za-z][\w-]*)\s+[\"']?){_VALUE}"),
)
# `Authorization: Bearer x`, and `https://user:x@host`.
_CARRIED_SECRETS = re.compile(r"(bearer\s+)\S+|(://[^\s/:@]+:)[^\s/@]+(?=@)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds something that must not be written down."""
    return _SECRET_NAME.search(name) is not None


def without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without secrets, also inside nested dictionaries such as `cli_args`."""
    return {
        name: without_secrets(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if not is_secret(name)
    }


def redacted_command_line(argv: list[str], typed: Mapping[str, Any]) -> str:
    """The command line as one string, which `shlex.split` takes apart, with the values of secrets blanked.

    The values are searched for rather than the flags, because a flag may have been abbreviated.
    """
    secrets = [str(value) for name, value in typed.items() if is_secret(name) and value]
    words = list(argv)
    for secret in sorted(secrets, key=len, reverse=True):
        words = [word.replace(secret, _BLANK) for word in words]
    return " ".join(shlex.quote(word) if _NEEDS_QUOTES.search(word) or not word else word for word in words)


def blanked(text: str) -> str:
    """Text that others wrote, such as logs, without the values of what is named like a secret."""
    for pattern in _WRITTEN_SECRETS:
        text = pattern.sub(_blank_value, text)
    return _CARRIED_SECRETS.sub(lambda match: f"{match[1] or match[2]}{_BLANK}", text)


def _blank_value(match: re.Match[str]) -> str:
    secret = is_secret(match["name"].replace("-", "_"))
    return f"{match['before']}{_BLANK}" if secret else match[0]
