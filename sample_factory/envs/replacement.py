"""Replaces environments that raise, so that one broken simulator does not cost its neighbours anything.

A failure counts against its environment until an episode is finished; too many in a row mean that it will
never work, and then the first exception ends the worker. Vectors call this; it makes environments only.

Invariant: what comes back is a new environment, and the old one has been asked to close.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

log = logging.getLogger("sample_factory")

MAX_FAILURES_IN_A_ROW = 5


class EnvFailedError(RuntimeError):
    """An environment fails every time; the cause is its first exception."""

    is_final = True


class Replacements:
    """Makes new environments for the places of a vector."""

    def __init__(self, make_env: Callable[[int], Any], env_ids: Sequence[int]):
        """`make_env(place)` makes an environment for one place of the vector."""
        self._make_env = make_env
        self._env_ids = list(env_ids)
        self._in_a_row = [0] * len(self._env_ids)
        self._first_errors: dict[int, Exception] = {}
        self.total = 0

    def replace(self, place: int, old: Any, error: Exception, where: str) -> Any:
        """A new environment for a place whose old one raised `error`; `where` tells seed and frame."""
        self.total += 1
        self._in_a_row[place] += 1
        first = self._first_errors.setdefault(place, error)
        env_id = self._env_ids[place]
        if self._in_a_row[place] > MAX_FAILURES_IN_A_ROW:
            raise EnvFailedError(
                f"environment {env_id} ({where}) failed {self._in_a_row[place]} times without finishing an "
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
        try:
            old.close()
        except Exception as close_error:  # noqa: BLE001  it is broken already
            log.warning("Environment %d could not be closed: %s", env_id, close_error)
        return self._make_env(place)

    def finished_episode(self, place: int) -> None:
        """The environment in this place works after all."""
        self._in_a_row[place] = 0
        self._first_errors.pop(place, None)
