"""The fork server starts wherever the user's temporary files are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import multiprocessing
from sample_factory.processes.fork_server import start_fork_server, stop_fork_server

if __name__ == "__main__":
    start_fork_server([])
    child = multiprocessing.get_context("forkserver").Process(target=print, args=("forked",))
    child.start()
    child.join()
    print(multiprocessing.process.current_process()._config.get("tempdir"))
    stop_fork_server()
"""


@pytest.mark.processes
def test_workers_are_forked_though_the_temporary_directory_has_a_long_name(tmp_path: Path) -> None:
    long = tmp_path / ("scratch_of_a_job_" * 8)
    long.mkdir()
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TMPDIR": str(long)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    forked, directory = done.stdout.split()
    assert forked == "forked"
    assert not Path(directory).exists()  # and nothing is left of what it used instead
    assert not list(long.iterdir())
