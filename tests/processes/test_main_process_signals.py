"""A whole process tree under signals: nobody outlives the main process, nobody leaves before it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.test_supervision import is_running

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def start_main() -> Iterator[Callable[..., tuple[subprocess.Popen[str], list[int]]]]:
    """Starts the main process; returns it with the ids of its fork server and workers."""
    started: list[tuple[subprocess.Popen[str], list[int]]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], list[int]]:
        main = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.main_process", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert main.stdout is not None
        started.append((main, [int(pid) for pid in main.stdout.readline().split()]))
        return started[-1]

    yield start
    for main, pids in started:
        main.kill()
        main.wait()
        for pid in pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def survivors_after(seconds: float, pids: list[int]) -> list[int]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(is_running(pid) for pid in pids):
        time.sleep(0.01)
    return [pid for pid in pids if is_running(pid)]


def test_workers_die_with_a_killed_main_process_even_when_stuck(start_main: Callable) -> None:
    main, pids = start_main("stuck")
    assert len(pids) == 3
    main.kill()
    main.wait()
    assert survivors_after(10.0, pids) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_leaves_workers_alive_until_they_are_told(
    number: signal.Signals, start_main: Callable
) -> None:
    main, pids = start_main()
    os.killpg(main.pid, number)
    last_words, _ = main.communicate(timeout=60)
    assert last_words.split() == ["0", "first", "second"]
    assert survivors_after(10.0, pids) == []
