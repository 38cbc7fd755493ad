from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from typing import Any

import pytest

from sample_factory.processes.kernel_lock import KernelLock, NoLock
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from tests.processes import children

pytestmark = pytest.mark.processes


def test_no_increment_is_lost_between_four_processes(start_process: Callable[..., Any]) -> None:
    lock, arrays = KernelLock(), SharedArrays({"counter": ArraySpec((1,), "int64")})
    processes = [start_process(children.increment, lock, arrays, 500) for _ in range(4)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert arrays["counter"][0] == 2000


def test_a_holder_killed_inside_the_critical_section_releases_the_lock(
    start_process: Callable[..., Any],
) -> None:
    lock, arrays = KernelLock(), SharedArrays({"held": ArraySpec((1,), "int64")})
    process = start_process(children.hold_for_ever, lock, arrays)
    while not arrays["held"][0]:
        time.sleep(0.001)
    with pytest.raises(BlockingIOError):
        fcntl.lockf(lock._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.kill()
    with lock:  # waits for ever if the dead process kept it
        pass


def test_an_error_inside_the_critical_section_releases_the_lock(start_process: Callable[..., Any]) -> None:
    lock, arrays = KernelLock(), SharedArrays({"counter": ArraySpec((1,), "int64")})
    with pytest.raises(ValueError), lock:
        raise ValueError
    process = start_process(children.increment, lock, arrays, 1)
    process.join(60)
    assert arrays["counter"][0] == 1


def test_a_lock_for_one_process_has_the_same_interface() -> None:
    lock = NoLock()
    with lock, lock:
        pass
    lock.close()
