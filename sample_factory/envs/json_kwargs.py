"""Reads settings that hold keyword arguments as JSON, such as `--pettingzoo_kwargs='{"max_cycles": 50}'`.

Families whose simulators take options of their own use it.
Invariant: what is not a JSON object is refused with a sentence that names the flag.
"""

from __future__ import annotations

import json
from typing import Any


def json_kwargs(flag: str, text: str) -> dict[str, Any]:
    """The keyword arguments in a setting; empty text means none.

    Raises:
        ValueError: the text is not a JSON object.
    """
    try:
        kwargs = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(_message(flag, text)) from error
    if not isinstance(kwargs, dict):
        raise ValueError(_message(flag, text))
    return kwargs


def _message(flag: str, text: str) -> str:
    return f"--{flag}={text!r} is not a JSON object, write for example --{flag}='{{\"name\": 1}}'."
