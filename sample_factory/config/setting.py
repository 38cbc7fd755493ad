"""One entry of the settings table.

A `Setting` says everything there is to know about one flag: its name, type, default, meaning, limits and who
reads it. The parser, the help text, docs/settings.md, validation and the search space of population-based
training are all derived from such entries, so a fact about a flag is written down exactly once.
Environment families declare their own flags with the same class.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class DefaultFactory:
    """A default that depends on the machine or the working directory, e.g. the number of CPUs.

    Attributes:
        symbol: how documentation shows it, e.g. `<cpu count>`.
        make: computes the value where the program runs.
    """

    symbol: str
    make: Callable[[], Any]


@dataclass(frozen=True)
class Setting:
    """A typed entry of the settings table; the flag is `--<name>`.

    Attributes:
        name: the flag without dashes, and the attribute of `Config`.
        type: `str`, `int`, `float`, `bool` (typed as true/false), or any callable that converts a string.
            For a list setting this is the type of one item.
        default: the value when nothing else decides; a `DefaultFactory` when it depends on the machine.
        help: what the setting does, one or two sentences.
        choices: the accepted values, if they are few.
        nargs: `"*"` or `"+"` for space separated lists; `"?"` if the flag may be typed without a value.
        aliases: other names of the same flag.
        group: who reads it; decides where help and documentation list it.
        minimum: the smallest accepted number.
        maximum: the largest accepted number.
        tunable: whether population-based training may change it during a run.
        above: an exclusive lower limit, for numbers that must be positive but have no smallest value.
        below: an exclusive upper limit.
        bare: what the flag means when it is typed without a value, with `nargs="?"`.
    """

    name: str
    type: Callable[[str], Any]
    default: Any
    help: str
    choices: Sequence[Any] | None = None
    nargs: str | None = None
    aliases: Sequence[str] = ()
    group: str = ""
    minimum: float | None = None
    maximum: float | None = None
    tunable: bool = False
    above: float | None = None
    below: float | None = None
    bare: Any = True

    @property
    def flag(self) -> str:
        """The flag as it is typed."""
        return f"--{self.name}"

    @property
    def is_list(self) -> bool:
        """Whether the value is a list of items."""
        return self.nargs in ("*", "+")

    @property
    def type_name(self) -> str:
        """The type in the words of the documentation."""
        name = getattr(self.type, "__name__", "value")
        return f"list of {name}" if self.is_list else name

    def default_value(self) -> Any:
        """The default on this machine; a fresh object each time, so nobody can change the table."""
        if isinstance(self.default, DefaultFactory):
            return self.default.make()
        return copy.copy(self.default)

    def default_text(self) -> str:
        """The default as documentation shows it, the same on every machine."""
        return self.default.symbol if isinstance(self.default, DefaultFactory) else str(self.default)

    def convert(self, text: str) -> Any:
        """Turn what was typed into a value; one item of it for a list setting.

        Raises:
            argparse.ArgumentTypeError: with a sentence that says what would have worked.
        """
        value = self._parse(text)
        if self.choices is not None and value not in self.choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {_listed(self.choices)}")
        return value

    def add_to(self, parser: argparse._ActionsContainer) -> argparse.Action:
        """Declare the flag on an argparse parser or argument group.

        Aliases are left to the parser, which replaces them: as flags they would make abbreviations ambiguous.
        """
        options: dict[str, Any] = {"default": self.default_value(), "type": self.convert}
        if self.choices is not None:
            options["metavar"] = "{" + ",".join(map(str, self.choices)) + "}"
        elif not self.is_list:
            options["metavar"] = self.type_name.upper()
        if self.nargs is not None:
            options["nargs"] = self.nargs
        if self.nargs == "?":
            options["const"] = self.bare
        return parser.add_argument(self.flag, help=self._help_text().replace("%", "%%"), **options)

    def problem_with(self, value: Any) -> str | None:
        """One sentence about why `value` can't be used, naming a value that works; None when it can."""
        if value is None and (self.default is None or self.type is str):
            return None
        if not self.is_list:
            return self._problem_with_item(value)
        if not isinstance(value, list | tuple) or (self.nargs == "+" and not value):
            return f"{self.flag}={value!r} must be a list, for example {self._example()}."
        return next((problem for problem in map(self._problem_with_item, value) if problem), None)

    def _help_text(self) -> str:
        also = " ".join(f"--{alias}" for alias in self.aliases)
        return f"{self.help} Also {also}." if also else self.help

    def _parse(self, text: str) -> Any:
        if self.type is bool:
            return parse_bool(text)
        try:
            return self.type(text)
        except ValueError:
            raise argparse.ArgumentTypeError(_not_a(self.type, text)) from None

    def _problem_with_item(self, value: Any) -> str | None:
        if not _has_type(value, self.type):
            kind = _KINDS.get(self.type, self.type_name)
            return f"{self.flag}={value!r} must be {kind}, for example {self._example()}."
        if self.choices is not None and value not in self.choices:
            return f"{self.flag}={value} must be one of {_listed(self.choices)}."
        if not self._in_range(value):
            return f"{self.flag}={value} must be {self.range_text()}, for example {self._example()}."
        return None

    def _in_range(self, value: Any) -> bool:
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def range_text(self) -> str:
        """The accepted range in words; empty when any number goes."""
        limits = (
            ("at least", self.minimum),
            ("above", self.above),
            ("at most", self.maximum),
            ("below", self.below),
        )
        return " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)

    def _example(self) -> str:
        value = self.default_value()
        if value is None or value == []:
            value = self._stand_in()
        shown = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
        return f"{self.flag} {shown}" if self.is_list else f"{self.flag}={shown}"

    def _stand_in(self) -> Any:
        """A value for examples of settings whose default is empty."""
        if self.type in (int, float):
            return max(1, int(self.minimum or 0))
        return True if self.type is bool else "name"


def in_group(group: str, *settings: Setting) -> tuple[Setting, ...]:
    """The settings, marked as read by `group`."""
    return tuple(replace(setting, group=group) for setting in settings)


def parse_bool(text: str) -> bool:
    """Read `true` or `false` in any letter case; nothing else, so that a typo never turns into a value."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return lowered == "true"


_KINDS: dict[Any, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}


def _has_type(value: Any, kind: Any) -> bool:
    if kind is bool or kind is str:
        return isinstance(value, kind)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    return True


def _not_a(kind: Any, text: str) -> str:
    sentence = f"{text!r} is not {_KINDS.get(kind, 'valid')}"
    if kind is int:
        try:
            number = float(text)
        except ValueError:
            return sentence
        if math.isfinite(number):
            return f"{sentence}; write {round(number)}"
    return sentence


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))
