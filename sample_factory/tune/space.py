"""The search space: which settings are tuned, and which values they may take.

Read from YAML or made by a user's `def search_space(trial)`; the search asks it for the configuration of each
trial. A trial is anything with Optuna's `suggest_float`, `suggest_int` and `suggest_categorical`.

Invariant: the same trial gets the same configuration however often it is asked, because Optuna keeps what it
has suggested; so a trial that was interrupted half-way is completed, not replaced.
"""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.target_flags import TargetFlags
from sample_factory.runner.yaml_loading import load_yaml
from sample_factory.tune.spaces import SPACES

Params = dict[str, Any]
_KEYS = frozenset({"type", "low", "high", "log", "step", "values", "when", "default"})
_EXAMPLE = "`learning_rate: {type: float, low: 1e-5, high: 1e-2, log: true}`"


class Trial(Protocol):
    """What a search space needs of Optuna's trials."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """A real number."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """A whole number."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """One of several values."""


@dataclass(frozen=True)
class Parameter:
    """One tuned setting.

    Attributes:
        name: of the setting.
        kind: "float", "int" or "choice".
        low: smallest value of a range.
        high: largest value of a range.
        log: search the range's logarithm.
        step: distance between values of a range; None is any.
        values: of a choice.
        when: values that other settings must have for this one to matter.
        default: what the default configuration has; None asks the trainer.
    """

    name: str
    kind: str
    low: Any = None
    high: Any = None
    log: bool = False
    step: Any = None
    values: tuple[Any, ...] = ()
    when: Mapping[str, Any] = field(default_factory=dict)
    default: Any = None

    def suggest(self, trial: Trial) -> Any:
        """This trial's value."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.name, self.values)
        if self.kind == "int":
            return trial.suggest_int(self.name, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log)

    def contains(self, value: Any) -> bool:
        """Whether a trial could have this value."""
        if self.kind == "choice":
            return any(type(value) is type(choice) and value == choice for choice in self.values)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low <= value <= self.high
        ):
            return False
        return not self.step or abs((value - self.low) / self.step % 1.0) < 1e-9

    def grid(self) -> list[Any]:
        """All values.

        Raises:
            RunnerError: when there are infinitely many.
        """
        if self.kind == "choice":
            return list(self.values)
        step = self.step or (1 if self.kind == "int" else None)
        if step is None:
            raise RunnerError(
                f"--sampler=grid needs values of {self.name}: give it a step, or a list of values."
            )
        count = int((self.high - self.low) / step + 1e-9)
        return [self.low + index * step for index in range(count + 1)]


class SearchSpace:
    """Settings to tune, in the order in which they are decided."""

    def __init__(self, parameters: Sequence[Parameter]):
        self.parameters = list(parameters)

    @property
    def names(self) -> list[str]:
        """The tuned settings."""
        return [parameter.name for parameter in self.parameters]

    def suggest(self, trial: Trial, others: Mapping[str, Any]) -> Params:
        """The configuration of a trial.

        Args:
            trial: who decides.
            others: values of settings that are not tuned, for conditions.
        """
        return self._decide(others, lambda parameter: parameter.suggest(trial))

    def defaults(self, others: Mapping[str, Any]) -> Params:
        """The default configuration as far as trials could have it; `others` are the trainer's defaults."""
        known = {
            parameter.name: value
            for parameter in self.parameters
            if (value := _first(parameter.default, others.get(parameter.name))) is not None
            and parameter.contains(value)
        }
        decided = self._decide(others, lambda parameter: known.get(parameter.name))
        return {name: value for name, value in decided.items() if value is not None}

    def given_defaults(self) -> Params:
        """The defaults that the space itself names."""
        return {item.name: item.default for item in self.parameters if item.default is not None}

    def grid(self, others: Mapping[str, Any]) -> list[Params]:
        """Every configuration once."""
        configurations: list[Params] = []
        for values in itertools.product(*(parameter.grid() for parameter in self.parameters)):
            chosen = dict(zip(self.names, values, strict=True))
            configuration = self._decide(others, _Chosen(chosen))
            if configuration not in configurations:
                configurations.append(configuration)
        return configurations

    def _decide(self, others: Mapping[str, Any], choose: Callable[[Parameter], Any]) -> Params:
        decided: Params = {}
        for parameter in self.parameters:
            so_far = {**others, **decided}
            if all(so_far.get(name) == value for name, value in parameter.when.items()):
                decided[parameter.name] = choose(parameter)
        return decided


class _Chosen:
    """Decides by a table."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = values

    def __call__(self, parameter: Parameter) -> Any:
        return self._values[parameter.name]


class FunctionSpace(SearchSpace):
    """A search space that a Python function decides."""

    def __init__(self, function: Callable[[Any], Mapping[str, Any]]):
        super().__init__([])
        self._function = function

    def suggest(self, trial: Trial, others: Mapping[str, Any]) -> Params:
        """What the function returns."""
        return dict(self._function(trial))

    def grid(self, others: Mapping[str, Any]) -> list[Params]:
        """Unknown."""
        raise RunnerError("--sampler=grid needs a search space in YAML; a function hides its values.")


def load_space(source: str | Mapping[str, Any], flags: TargetFlags) -> SearchSpace:
    """The search space that a name, a file or a mapping stands for, checked against the trainer's settings.

    Raises:
        RunnerError: there is none, or a part of it makes no sense.
    """
    if isinstance(source, Mapping):
        return parse_space(source, flags)
    if source in SPACES:
        return parse_space(SPACES[source], flags)
    path = Path(source)
    if path.suffix == ".py":
        return FunctionSpace(_function_of(path))
    if path.suffix not in (".yaml", ".yml"):
        names = ", ".join(SPACES)
        raise RunnerError(f"--search_space={source} is unknown; use {names}, or a .yaml or .py file.")
    return parse_space(load_yaml(path), flags)


def parse_space(content: Mapping[str, Any], flags: TargetFlags) -> SearchSpace:
    """The search space in a mapping of names to ranges or lists."""
    parameters: list[Parameter] = []
    for name, entry in content.items():
        parameters.append(_parameter(str(name), entry, flags))
        later = [other for other in parameters[-1].when if other in list(content)[len(parameters) :]]
        if later:
            raise RunnerError(f"search space: {name} depends on {later[0]}, which must come before it.")
    if not parameters:
        raise RunnerError(f"the search space is empty; write for example {_EXAMPLE}.")
    return SearchSpace(parameters)


def _parameter(name: str, entry: Any, flags: TargetFlags) -> Parameter:
    if isinstance(entry, list):
        entry = {"type": "choice", "values": entry}
    if not isinstance(entry, Mapping) or not set(entry) <= _KEYS:
        raise RunnerError(f"search space: {name} must be a list of values, or like {_EXAMPLE}.")
    kind = str(entry.get("type") or ("choice" if "values" in entry else "float"))
    when, default = dict(entry.get("when") or {}), entry.get("default")
    if kind == "choice":
        values = entry.get("values")
        if not isinstance(values, list) or not values or any(isinstance(item, list) for item in values):
            raise RunnerError(f"search space: {name} needs `values: [a, b]`.")
        checked = tuple(flags.check(name, item) for item in values)
        return Parameter(name, kind, values=checked, when=when, default=default)
    if kind not in ("float", "int"):
        raise RunnerError(f"search space: {name} has the type {kind}; use float, int or choice.")
    low, high = (_number(name, entry.get(end), kind, flags) for end in ("low", "high"))
    log, step = bool(entry.get("log", False)), entry.get("step")
    if not low < high or (log and (low <= 0 or step)):
        raise RunnerError(f"search space: {name} is no range; write for example {_EXAMPLE}.")
    return Parameter(name, kind, low, high, log, step, when=when, default=default)


def _number(name: str, value: Any, kind: str, flags: TargetFlags) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunnerError(f"search space: {name} needs `low` and `high`, for example {_EXAMPLE}.")
    checked = flags.check(name, value)
    if kind == "float" and isinstance(checked, int) and not isinstance(value, int):
        raise RunnerError(f"search space: {name} is a whole number; write `type: int`.")
    return int(checked) if kind == "int" else float(checked)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _function_of(path: Path) -> Callable[[Any], Mapping[str, Any]]:
    if not path.exists():
        raise RunnerError(f"--search_space={path} does not exist.")
    function = runpy.run_path(str(path)).get("search_space")
    if not callable(function):
        raise RunnerError(f"--search_space={path} must define `def search_space(trial)`.")
    return function
