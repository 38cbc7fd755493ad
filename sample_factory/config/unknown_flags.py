"""What to tell somebody who typed a flag that does not exist.

Used by the parser alone. A flag may be misspelt, belong to another program of ours, or be something that must
not be a flag at all; each gets the sentence that helps.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sample_factory.config import settings_evaluation
from sample_factory.config.redaction import is_secret
from sample_factory.config.setting import Setting
from sample_factory.config.table import settings_for


def explain_unknown(unknown: Sequence[str], known_flags: Sequence[str], algo: str) -> list[str]:
    """One sentence for each flag that could not be understood; values are not repeated, they may be secret.

    Args:
        unknown: the parts of the command line that the parser could not place, flags and values.
        known_flags: the flags that exist here.
        algo: the algorithm they exist for.
    """
    flags = [token.split("=")[0] for token in unknown if token.startswith("-")]
    if unknown and not flags:
        return [f"{unknown[0]!r} belongs to no flag; flags are written --flag=value."]
    return [_explain(flag, known_flags, algo) for flag in flags]


def _explain(flag: str, known_flags: Sequence[str], algo: str) -> str:
    name = flag.lstrip("-")
    if is_secret(name):
        return f"{flag} is not a flag, because flags are recorded; log in with the service's own program."
    if name in _names(settings_evaluation.SETTINGS):
        return f"{flag} exists only in evaluation (enjoy_appo); leave it out here."
    if algo != "APPO" and name in _names(settings_for("APPO")):
        return f"{flag} does not exist with --algo={algo}, only with --algo=APPO; leave it out."
    nearest = difflib.get_close_matches(flag, known_flags, n=1)
    if nearest:
        return f"{flag} is not a flag; did you mean {nearest[0]}?"
    return f"{flag} is not a flag; --help lists those of this environment."


def _names(settings: Sequence[Setting]) -> set[str]:
    return {name for setting in settings for name in (setting.name, *setting.aliases)}
