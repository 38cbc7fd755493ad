"""Replaces environments that raise, so that one broken simulator does not cost its neighbours anything.

A failure counts against its environment until an episode is finished or a minute has passed; too many in a
row mean that it will never work, and then the first exception ends the worker. Failures in a row are
answered after a pause that doubles. Builders and vectors call this; it makes environments only.

Invariant: what comes back is a new environment, and the old one has been asked to close.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

log = logging.getLogger("sample_factory")

MAX_FAILURES_IN_A_ROW = 5
GOOD_RUN_SEC = 60.0  # an environment that works for this long works, however long its episodes are
FIRST_BACK_OFF_SEC = 0.1


class EnvFailedError(RuntimeError):
    """An environment fails every time; the cause is its first exception."""

    is_final = True


class Replacements:
    """Makes the environments for the places of a vector, anew where one has failed."""

    def __init__(
        self,
        make_env: Callable[[int], Any],
        env_ids: Sequence[int],
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ):
        """`make_env(place)` makes an environment for one place of the vector."""
        self._make_env = make_env
        self._env_ids = list(env_ids)
        self._clock = clock
        self._wait = wait
        self._in_a_row = [0] * len(self._env_ids)
        self._first_errors: dict[int, Exception] = {}
        self._last_failure: dict[int, float] = {}
        self.total = 0

    def make(self, place: int) -> Any:
        """An environment for a place; one that can't be made at once may be made a moment later."""
        while True:
            try:
                return self._make_env(place)
            except Exception as error:  # noqa: BLE001  simulators raise anything
                self._note_failure(place, error, "while it was made")

    def replace(self, place: int, old: Any, error: Exception, where: str) -> Any:
        """A new environment for a place whose old one raised `error`; `where` tells seed and frame."""
        self._note_failure(place, error, where)
        try:
            old.close()
        except Exception as close_error:  # noqa: BLE001  it is broken already
            log.warning("Environment %d could not be closed: %s", self._env_ids[place], close_error)
        return self.make(place)

    def _note_failure(self, place: int, error: Exception, where: str) -> None:
        now = self._clock()
        if now - self._last_failure.get(place, now) >= GOOD_RUN_SEC:
            self.finished_episode(place)
        self._last_failure[place] = now
        self.total += 1
        self._in_a_row[place] += 1
        in_a_row, env_id = self._in_a_row[place], self._env_ids[place]
        first = self._first_errors.setdefault(place, error)
        if in_a_row > MAX_FAILURES_IN_A_ROW:
            raise EnvFailedError(
                f"environment {env_id} ({where}) failed {in_a_row} times without finishing an "
                f"episode, first with {type(first).__name__}: {first}"
            ) from first
        log.warning(
            "Environment %d (%s) raised %s: %s; it is replaced, its trajectory is cut here (failure %d).",
            env_id,
            where,
            type(error).__name__,
            error,
            self.total,
            exc_info=error if self.total == 1 else None,
        )
        if in_a_row > 1:
            self._wait(FIRST_BACK_OFF_SEC * 2 ** (in_a_row - 2))

    def finished_episode(self, place: int) -> None:
        """The environment in this place works after all."""
        self._in_a_row[place] = 0
        self._first_errors.pop(place, None)
