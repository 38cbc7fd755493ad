"""Environments that raise are replaced, after a pause that grows, until it is clear that they never work."""

from __future__ import annotations

from typing import Any

import pytest

from sample_factory.envs.replacement import EnvFailedError, Replacements

BROKEN = ValueError("broken")


class Closable:
    closed = False

    def close(self) -> None:
        self.closed = True


class Workshop:
    """Makes environments, the first `failures` attempts raise; remembers the pauses and tells the time."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.pauses: list[float] = []
        self.now = 0.0
        self.replacements = Replacements(self._make, [7], clock=lambda: self.now, wait=self.pauses.append)

    def _make(self, place: int) -> Closable:
        if self.failures > 0:
            self.failures -= 1
            raise OSError(f"attempt {self.failures} to come")
        return Closable()

    def replace(self, times: int, error: Exception = BROKEN) -> Any:
        for _ in range(times):
            made = self.replacements.replace(0, Closable(), error, "seed 3, frame 5 of its episode")
        return made


def test_the_old_environment_is_closed():
    old = Closable()
    assert Workshop().replacements.replace(0, old, BROKEN, "seed 3") is not old
    assert old.closed


def test_an_environment_that_can_not_be_made_at_once_is_made_later():
    workshop = Workshop(failures=2)
    assert isinstance(workshop.replacements.make(0), Closable)
    assert workshop.replacements.total == 2


def test_pauses_between_failures_in_a_row_double():
    workshop = Workshop()
    workshop.replace(5)
    assert workshop.pauses == [0.1, 0.2, 0.4, 0.8]


def test_the_first_of_too_many_errors_is_the_one_that_is_told():
    workshop = Workshop()
    workshop.replace(1, KeyError("the first"))
    workshop.replace(4)
    with pytest.raises(
        EnvFailedError, match=r"environment 7 .seed 3, frame 5.*KeyError: 'the first'"
    ) as caught:
        workshop.replace(1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_failing_while_being_made_counts_with_the_other_failures():
    workshop = Workshop(failures=9)
    with pytest.raises(EnvFailedError, match="first with ValueError: broken"):
        workshop.replace(1)
    assert workshop.replacements.total == 6


def test_a_finished_episode_forgives():
    workshop = Workshop()
    for _ in range(4):
        workshop.replace(3)
        workshop.replacements.finished_episode(0)
    assert workshop.replacements.total == 12


def test_a_minute_without_failure_forgives_where_episodes_are_long():
    workshop = Workshop()
    for _ in range(20):
        workshop.now += 61.0
        workshop.replace(1)
    assert workshop.pauses == []
