"""Writes a learner's checkpoints in a thread, so that a slow disk stops neither training nor sampling.

The learner hands over a copy of its state and goes on; what became of it is learned with `collect`.

Invariant: writes happen one after another, in the order in which they were handed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from sample_factory.model.checkpoints import CheckpointError


class BackgroundSaver:
    """Used by one thread, served by another."""

    def __init__(self, at_once: bool = False) -> None:
        """`at_once`: every write is waited for, so that a repeated session saves at the same steps."""
        self._at_once = at_once
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoints")
        self._under_way: deque[tuple[Future[object], Callable[[], None]]] = deque()
        self.error: CheckpointError | None = None  # of the last write that failed, until one succeeds

    @property
    def under_way(self) -> int:
        """Writes whose outcome has not been collected."""
        return len(self._under_way)

    def hand_over(self, write: Callable[[], object], on_success: Callable[[], None]) -> None:
        """Queues a write; `on_success` is called from `collect` once it is on the disk."""
        future = self._thread.submit(write)
        self._under_way.append((future, on_success))
        if self._at_once:
            wait([future])

    def collect(self, all_of_them: bool = False) -> list[CheckpointError]:
        """The failures of the writes that are finished; waits for the rest if asked for all of them."""
        failures = []
        while self._under_way and (all_of_them or self._under_way[0][0].done()):
            future, on_success = self._under_way.popleft()
            try:
                future.result()
            except CheckpointError as error:
                self.error = error
                failures.append(error)
            else:
                self.error = None
                on_success()
        return failures

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown()
