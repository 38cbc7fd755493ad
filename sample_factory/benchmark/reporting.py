"""`report`: how a script tells `benchmark wrap` about its numbers, in one line and without depending on it.

Invariant: outside of `wrap` a report goes nowhere and costs nothing, so scripts can keep the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Sink = Callable[[Mapping[str, float], int | None], None]


class _Outlet:
    """Where reports of this process go; one for all threads of a script."""

    def __init__(self) -> None:
        self.sink: Sink | None = None


_OUTLET = _Outlet()


def report(*, step: int | None = None, **values: float) -> None:
    """Records numbers of a wrapped script, for example `report(step=1000, reward=12.5, loss=0.3)`.

    Args:
        step: environment steps so far; left out, `wrap` counts them itself.
        values: numbers by name.
    """
    if _OUTLET.sink is not None:
        _OUTLET.sink(values, step)


@contextmanager
def reports_to(sink: Sink) -> Iterator[None]:
    """Sends reports to `sink` while the context lasts."""
    previous, _OUTLET.sink = _OUTLET.sink, sink
    try:
        yield
    finally:
        _OUTLET.sink = previous
