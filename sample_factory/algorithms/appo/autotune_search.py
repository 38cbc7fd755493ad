"""Which settings to try next when looking for the fastest: a search that knows nothing of processes.

`autotune` asks for a candidate, measures it, tells the result, until nobody asks any more (the time is over)
or nothing near the best is left to try. The first candidates stand for different ways of working; from the
best of them one setting at a time is moved, up and then down, as long as that helps.

Invariant: no candidate is proposed twice, and what is fixed has the same value in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

ROLLOUT_WORKERS, POLICY_WORKERS = "rollout_workers", "policy_workers"
MARGIN = 0.03  # a difference below this is noise, and the candidate tried first is kept
ENVS_LADDER = (1, 2, 4, 8, 16, 32, 64, 128)
FIRST_ENVS = 16  # enough that a network call is shared by many environments


@dataclass(frozen=True)
class Candidate:
    """The settings that decide the speed and not what is learned; named as in the settings table."""

    num_workers: int
    num_envs_per_worker: int
    worker_num_splits: int
    inference: str
    learner_threads: int

    def settings(self) -> dict[str, Any]:
        """By name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


TUNED = tuple(field.name for field in fields(Candidate))


def ladders(num_cores: int) -> dict[str, tuple[Any, ...]]:
    """The values worth trying on a machine, in the order in which settings are moved."""
    workers = {1, num_cores // 2, num_cores - 1, num_cores, num_cores + num_cores // 2, 2 * num_cores}
    threads = {1, num_cores // 2, num_cores - 1, num_cores}
    return {
        "num_envs_per_worker": ENVS_LADDER,
        "num_workers": tuple(sorted(workers - {0})),
        "learner_threads": tuple(sorted(threads - {0})),
        "inference": (ROLLOUT_WORKERS, POLICY_WORKERS),
        "worker_num_splits": (1, 2),
    }


def first_candidates(present: Candidate, num_cores: int, fixed: frozenset[str]) -> list[Candidate]:
    """What would be used without tuning, then one sensible candidate for each place of inference."""
    wanted = (
        Candidate(num_cores, FIRST_ENVS, 1, ROLLOUT_WORKERS, present.learner_threads),
        Candidate(num_cores, FIRST_ENVS, 2, POLICY_WORKERS, present.learner_threads),
    )
    kept = {name: value for name, value in present.settings().items() if name in fixed}
    return list(dict.fromkeys([present, *(_normal(replace(c, **kept), fixed) for c in wanted)]))


class Search:
    """Proposes candidates and remembers what they reached."""

    def __init__(
        self,
        first: Sequence[Candidate],
        values: Mapping[str, Sequence[Any]],
        fixed: frozenset[str] = frozenset(),
        is_allowed: Callable[[Candidate], bool] = lambda candidate: True,
    ):
        """Makes a search.

        Args:
            first: tried in this order; the first of them whatever `is_allowed` says.
            values: for every setting what it may be, ascending; settings are moved in this order.
            fixed: names of settings that are not moved.
            is_allowed: whether a candidate can be run at all.
        """
        self.results: dict[Candidate, float | None] = {}  # frames/s; None: it failed
        self.best: Candidate | None = None
        self._first = first
        self._axes = {name: axis for name, axis in values.items() if name not in fixed}
        self._fixed = fixed
        self._is_allowed = is_allowed
        self._proposals = self._propose()

    def next(self) -> Candidate | None:
        """What to measure now; None when nothing promising is left. Tell its result before asking again."""
        return next(self._proposals, None)

    def tell(self, candidate: Candidate, fps: float | None) -> None:
        """Takes a result; None when the candidate did not work."""
        self.results[candidate] = fps
        if fps is None:
            return
        if self.best is None or fps > self.best_fps * (1 + MARGIN):
            self.best = candidate

    @property
    def best_fps(self) -> float:
        """What the best candidate reached; 0 when there is none."""
        return (self.results[self.best] or 0.0) if self.best is not None else 0.0

    def _propose(self) -> Iterator[Candidate]:
        for number, candidate in enumerate(self._first):
            if number == 0 or self._is_new(candidate):
                yield candidate
        improved = self.best is not None
        while improved:
            improved = False
            for name in self._axes:
                for direction in (1, -1):
                    for candidate in self._moves(name, direction):
                        yield candidate
                        if self.best != candidate:
                            break
                        improved = True

    def _moves(self, name: str, direction: int) -> Iterator[Candidate]:
        """The best candidate with one setting moved further and further; skips what is known."""
        assert self.best is not None
        start = self.best
        values = list(self._axes[name])
        if isinstance(values[0], str):
            ordered = [value for value in values if value != getattr(start, name)]
        else:
            here = getattr(start, name)
            ordered = (
                [v for v in values if v > here] if direction > 0 else [v for v in values[::-1] if v < here]
            )
        for value in ordered:
            candidate = _normal(replace(start, **{name: value}), self._fixed)
            if self._is_new(candidate):
                yield candidate
            elif candidate in self.results:
                return

    def _is_new(self, candidate: Candidate) -> bool:
        return candidate not in self.results and self._is_allowed(candidate)


def _normal(candidate: Candidate, fixed: frozenset[str]) -> Candidate:
    """Splits overlap waiting for policy workers; without these, one is all there is."""
    if candidate.inference == ROLLOUT_WORKERS and "worker_num_splits" not in fixed:
        return replace(candidate, worker_num_splits=1)
    return candidate
