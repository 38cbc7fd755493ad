"""What the command of a description understands, so that mistakes are found before sixty jobs fail of them.

Known for our own trainer, whose flags depend on the environment; every other program takes anything. Used
by `description_files`. Invariant: a value that passes here is accepted by the command's own parser.
"""

from __future__ import annotations

import argparse
import difflib
import functools
from typing import Any

from sample_factory.config.parsing import arg_parser
from sample_factory.config.setting import DefaultFactory
from sample_factory.config.table import settings_for
from sample_factory.runner.errors import RunnerError

_OUR_MODULES = ("sample_factory.algorithms.appo.train_appo", "sample_factory.run_algorithm")
# The launcher says these itself.
_GIVEN_BY_LAUNCHER = frozenset({"help", "experiment", "train_dir", "experiments_root"})


class TargetFlags:
    """The flags of a command; this one takes anything."""

    def is_list(self, name: str) -> bool:
        """Whether the flag takes several values."""
        return False

    def has(self, name: str) -> bool:
        """Whether there is such a flag."""
        return True

    def check(self, name: str, value: Any) -> Any:
        """The value as the flag wants it.

        Raises:
            RunnerError: when there is no such flag, or the value does not fit.
        """
        return value

    def is_default(self, name: str, value: Any) -> bool:
        """Whether leaving the flag out means the same."""
        return False

    def defaults(self) -> dict[str, Any]:
        """Every flag with its default."""
        return {}


class TrainerFlags(TargetFlags):
    """The flags of our trainer for one environment."""

    def __init__(self, algo: str, env: str):
        parser = arg_parser([f"--algo={algo}", f"--env={env}"])
        self._aliases: dict[str, str] = getattr(parser, "aliases", {})
        self._actions = {action.dest: action for action in parser._actions}
        # A default that depends on the machine must not be compared here: the job may run on another one.
        of_machine = {item.name for item in settings_for(algo) if isinstance(item.default, DefaultFactory)}
        self._defaults = {name: parser.get_default(name) for name in self._actions if name not in of_machine}

    def is_list(self, name: str) -> bool:
        """Whether the flag takes several values."""
        return self.has(name) and self._action(name).nargs in ("*", "+")

    def has(self, name: str) -> bool:
        """Whether there is such a flag."""
        return self._aliases.get(name, name) in self._actions

    def check(self, name: str, value: Any) -> Any:
        """The value in the flag's type."""
        if not self.has(name):
            nearest = difflib.get_close_matches(name, self._actions, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else "see docs/settings.md."
            raise RunnerError(f"{name!r} is not a setting of the trainer; {hint}")
        if isinstance(value, list) and not self.is_list(name):
            raise RunnerError(f"{name!r} takes one value and not a list.")
        if isinstance(value, list):
            return [self._converted(name, item) for item in value]
        return self._converted(name, value)

    def is_default(self, name: str, value: Any) -> bool:
        """Whether leaving the flag out means the same."""
        name = self._aliases.get(name, name)
        return name in self._defaults and bool(self._defaults[name] == value)

    def defaults(self) -> dict[str, Any]:
        """Every flag that has a default."""
        return {
            name: value
            for name, value in self._defaults.items()
            if value is not None and name not in _GIVEN_BY_LAUNCHER
        }

    def _action(self, name: str) -> argparse.Action:
        return self._actions[self._aliases.get(name, name)]

    def _converted(self, name: str, value: Any) -> Any:
        convert = self._action(name).type
        # 5e8 is how people write a whole number; the flag wants its digits.
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if not callable(convert):
            return value
        try:
            return convert(text)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise RunnerError(f"{name}: {error}.") from error


def is_trainer(command: str) -> bool:
    """Whether a command is our own trainer."""
    return any(module in command.split() for module in _OUR_MODULES)


@functools.cache
def target_flags(command: str, algo: str, env: str) -> TargetFlags:
    """What a command understands for an environment."""
    return TrainerFlags(algo, env) if is_trainer(command) else TargetFlags()
