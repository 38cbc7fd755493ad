"""The process that workers are forked from.

It imports what workers need once, and has no threads or locks of the main process to inherit.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from multiprocessing import process, util

LONGEST_DIRECTORY = 70  # addresses of sockets have 107 bytes, of which names in the directory take some
SHORT_DIRECTORY = "/tmp"


def start_fork_server(preload: Sequence[str]) -> None:
    """Starts the process that workers are forked from; it imports `preload` while the caller goes on.

    The signals that a scheduler sends to every process of a job must not end it: its workers would die with
    it, before they could save.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
    ensure_fork_server()


def ensure_fork_server() -> None:
    """Starts the fork server if it is not there, which it is not if somebody has killed it."""
    # numpy's threads are decided when it is imported, that is in the fork server: one per worker is right.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _shorten_temporary_directory()
    ignored = (signal.SIGTERM, signal.SIGUSR1)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def stop_fork_server() -> None:
    """Ends the fork server now instead of shortly after this process."""
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _shorten_temporary_directory() -> None:
    """Schedulers give jobs a TMPDIR that may be too long for the sockets multiprocessing puts there."""
    if len(os.fsencode(tempfile.gettempdir())) <= LONGEST_DIRECTORY:
        return
    settings = process.current_process()._config  # type: ignore[attr-defined]
    if not settings.get("tempdir"):
        settings["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir=SHORT_DIRECTORY)
        util.Finalize(None, shutil.rmtree, args=[settings["tempdir"], True], exitpriority=-100)
