"""Which parameter values the experiments of one description entry get: lists, grids and random samples.

Used in `RUN_DESCRIPTION` scripts and by `description_files`. Values keep their Python types. Invariant:
the same generator gives the same sequence each time it is asked, also shuffled, because names of
experiments hold their position, and a launcher that is started again must find what is already done.
"""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Params = dict[str, Any]
_SHUFFLE_SEED = 0
_SMALLEST_SEED, _LARGEST_SEED = 1_000_000, 9_999_998


class ParamGenerator(ABC):
    """Anything that yields one dictionary of parameters per experiment."""

    @abstractmethod
    def combinations(self) -> list[Params]:
        """All combinations, in their natural order."""

    def generate_params(self, randomize: bool = True) -> Iterator[Params]:
        """The combinations, shuffled unless `randomize` is False; always the same way."""
        combinations = self.combinations()
        if randomize:
            random.Random(_SHUFFLE_SEED).shuffle(combinations)
        yield from combinations


class ParamList(ParamGenerator):
    """Combinations that are written out one by one."""

    def __init__(self, combinations: Sequence[Mapping[str, Any]]):
        self._combinations = [dict(combination) for combination in combinations]

    def combinations(self) -> list[Params]:
        """The combinations as given."""
        return [dict(combination) for combination in self._combinations]


class ParamGrid(ParamGenerator):
    """Every combination of the values; the first parameter changes slowest.

    Args:
        grid: pairs of a parameter and its values. A tuple of parameters goes with tuples of values that
            belong together: `(("rollout", "recurrence"), [(32, 32), (64, 64)])`.
    """

    def __init__(self, grid: Sequence[tuple[str | tuple[str, ...], Sequence[Any]]]):
        self._axes = [[_assigned(key, value) for value in values] for key, values in grid]

    def combinations(self) -> list[Params]:
        """The Cartesian product; one empty combination for an empty grid."""
        return [_merged(parts) for parts in itertools.product(*self._axes)]


class ParamSample(ParamGenerator):
    """Random combinations, none of them twice.

    Args:
        space: for each parameter its choices (a list), or a range `{"low": .., "high": .., "log": bool}`.
        num_trials: how many combinations; fewer if there are not that many.
        seed: decides the draw.
    """

    def __init__(self, space: Mapping[str, Any], num_trials: int, seed: int = 0):
        self._space = dict(space)
        self._num_trials = num_trials
        self._seed = seed

    @property
    def num_choices(self) -> float:
        """How many different combinations there are; infinite with a continuous range."""
        sizes = (math.inf if isinstance(values, Mapping) else len(values) for values in self._space.values())
        return math.prod(sizes)

    def combinations(self) -> list[Params]:
        """The drawn combinations."""
        rng = random.Random(self._seed)
        if self.num_choices <= self._num_trials:
            return ParamGrid(list(self._space.items())).combinations()
        drawn: dict[str, Params] = {}
        while len(drawn) < self._num_trials:
            params = {key: _draw(values, rng) for key, values in self._space.items()}
            drawn.setdefault(repr(params), params)
        return list(drawn.values())


def seeds(num_seeds: int) -> list[int]:
    """Random seeds of seven digits, different ones at each call."""
    return [random.randint(_SMALLEST_SEED, _LARGEST_SEED) for _ in range(num_seeds)]


def _assigned(key: str | tuple[str, ...], value: Any) -> Params:
    if isinstance(key, str):
        return {key: value}
    if len(key) != len(value):
        raise ValueError(f"{key} needs {len(key)} values that belong together, got {value!r}.")
    return dict(zip(key, value, strict=True))


def _merged(parts: Sequence[Params]) -> Params:
    merged: Params = {}
    for part in parts:
        merged |= part
    return merged


def _draw(values: Any, rng: random.Random) -> Any:
    if not isinstance(values, Mapping):
        return rng.choice(values)
    low, high = values["low"], values["high"]
    if values.get("log"):
        return _rounded(math.exp(rng.uniform(math.log(low), math.log(high))))
    if isinstance(low, int) and isinstance(high, int):
        return rng.randint(low, high)
    return _rounded(rng.uniform(low, high))


def _rounded(value: float) -> float:
    """Six digits: values are part of names."""
    return float(f"{value:.6g}")
