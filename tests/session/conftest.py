"""What the tests of whole sessions start from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from sample_factory.envs.registry import temporary_registrations
from sample_factory.monitoring.log import close_logging
from tests.doubles import register_doubles
from tests.session.running import Program

StartProgram = Callable[..., Program]


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    with temporary_registrations():
        register_doubles()
        yield


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """A session in this process sets up logging and torch; the next test finds both as they were."""
    logger = logging.getLogger("sample_factory")
    propagate, level, threads = logger.propagate, logger.level, torch.get_num_threads()
    with torch.random.fork_rng():
        yield
    close_logging()
    logger.propagate = propagate
    logger.setLevel(level)
    torch.set_num_threads(threads)


@pytest.fixture
def start_program(tmp_path: Path) -> Iterator[StartProgram]:
    """Starts a program; kills it after the test, and fails the test if it left anything behind."""
    programs: list[Program] = []

    def start(*arguments: str, **options: str) -> Program:
        programs.append(Program(arguments, tmp_path, **options))
        return programs[-1]

    yield start
    for program in programs:
        program.end()
