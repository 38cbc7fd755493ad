"""Names of experiments, exactly as v1 made them, since directories and scripts depend on them.

Used by `run_description` alone. A name is `<index>_<base>_<short>_<value>...`; a parameter's short form
is the initials of its words but the last, then three letters of the last: `num_envs_per_worker` is
`n.e.p.wor`. Invariant: within one experiment no two parameters have the same short form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

_WORD_BORDER = re.compile(r"[._-]")
_NOT_IN_FILE_NAMES = re.compile(r"[\s/\x00]+")
_LETTERS = 3


def short_names(parameters: Iterable[str]) -> dict[str, str]:
    """The short form of each parameter; of two that collide, the later one is longer."""
    short: dict[str, str] = {}
    for parameter in parameters:
        taken = short.values()
        short[parameter] = next(form for form in _forms(parameter) if form not in taken)
    return short


def experiment_name(index: int, base_name: str, params: dict[str, Any], named: Collection[str]) -> str:
    """The name of one experiment.

    Args:
        index: its position among the experiments of one description entry.
        base_name: the name of that entry.
        params: its parameters.
        named: those of them that the name shows.
    """
    shown = {key: value for key, value in params.items() if key in named}
    short = short_names(shown)
    tokens = [f"{index:02d}", base_name]
    tokens += [f"{short[key]}_{_NOT_IN_FILE_NAMES.sub('-', str(value))}" for key, value in shown.items()]
    return "_".join(tokens)


def _forms(parameter: str) -> Iterator[str]:
    """From short to long; the full name and then numbered ones for words that are used up."""
    *words, last = _WORD_BORDER.split(parameter)
    initials = [word[:1] for word in words]
    for letters in range(min(_LETTERS, len(last)), len(last) + 1):
        yield ".".join([*initials, last[:letters]])
    yield parameter
    for number in itertools.count(2):
        yield f"{parameter}{number}"
