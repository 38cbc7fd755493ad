import logging
from collections.abc import Callable, Iterator

import pytest

from sample_factory.monitoring import log


class FakeClock:
    """Time that passes only when told to."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log_lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[tuple[str, str]]]:
    """What has been logged so far, as (level, message)."""
    monkeypatch.setattr(log.logger(), "propagate", True)
    caplog.set_level(logging.DEBUG, logger=log.LOGGER_NAME)
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.fixture
def logging_closed_afterwards() -> Iterator[None]:
    yield
    log.close_logging()
