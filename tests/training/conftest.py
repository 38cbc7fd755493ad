"""What the tests of training start from."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def same_random_numbers() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def log_lines() -> Iterator[list[str]]:
    """What the program logs during the test, whether or not logging has been set up."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("sample_factory")
    handler = Keep()
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
