"""One fork server for all tests that start processes; it imports what the children need only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import pytest

from sample_factory.processes.fork_server import start_fork_server


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    start_fork_server(["numpy", "sample_factory.processes.worker", "tests.processes.children"])


@pytest.fixture
def start_process() -> Iterator[Callable[..., Any]]:
    """Starts `function(*args)` in a process that does not outlive the test."""
    started = []

    def start(function: Callable[..., Any], *args: Any) -> Any:
        process = get_context("forkserver").Process(target=function, args=args)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        if process.is_alive():
            process.kill()
        process.join(10.0)
        process.close()
