from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sample_factory.processes.child_call import call_in_child
from sample_factory.processes.directory_lock import DirectoryInUseError, DirectoryLock
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from tests.processes import children

pytestmark = pytest.mark.processes


def test_a_second_process_is_told_who_holds_the_directory_and_which_flag_to_change(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path, "--experiment"):
        message = call_in_child(children.try_lock, tmp_path, timeout=60)
    assert f"in use by process {os.getpid()}" in message
    assert "--experiment" in message


def test_the_directory_is_free_again_after_the_first_run(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path, "--experiment"):
        pass
    assert call_in_child(children.try_lock, tmp_path, timeout=60) == ""


def test_one_process_can_not_take_a_directory_twice(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path, "--experiment"), pytest.raises(DirectoryInUseError):
        DirectoryLock(tmp_path, "--experiment").__enter__()


def test_a_killed_run_leaves_the_directory_free(tmp_path: Path, start_process: Callable[..., Any]) -> None:
    arrays = SharedArrays({"held": ArraySpec((1,), "int64")})
    process = start_process(children.lock_for_ever, tmp_path, arrays)
    while not arrays["held"][0]:
        time.sleep(0.001)
    assert call_in_child(children.try_lock, tmp_path, timeout=60) != ""
    process.kill()
    process.join()
    assert call_in_child(children.try_lock, tmp_path, timeout=60) == ""
