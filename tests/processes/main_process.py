"""A main process with two workers, run as `python -m tests.processes.main_process` and sent signals.

Prints the ids of its fork server and workers. After SIGTERM, SIGINT or SIGUSR1 it asks the workers to stop,
and prints which of them closed orderly.
"""

from __future__ import annotations

import multiprocessing.forkserver
import signal
import sys

from sample_factory.processes.fork_server import start_fork_server
from sample_factory.processes.supervision import Supervisor
from sample_factory.processes.worker import WorkerSpec
from tests.processes.children import StuckInPoll, Toy


def main() -> None:
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: told.append(number))
    start_fork_server(["numpy", "tests.processes.children"])
    supervisor = Supervisor(max_workers=2)
    second = StuckInPoll if "stuck" in sys.argv else Toy
    supervisor.start(WorkerSpec("first", Toy))
    supervisor.start(WorkerSpec("second", second))
    while not supervisor.all_started():
        list(supervisor.reports(0.05))
    server = multiprocessing.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    print(server, *supervisor.pids().values(), flush=True)
    deaths = []
    while not told:
        list(supervisor.reports(0.05))
        deaths += supervisor.check()
    closed = [r[1] for r in supervisor.stop(["first", "second"], 20.0) if r[0] == "closed"]
    supervisor.stop_all(20.0)
    print(len(deaths), *closed, flush=True)


if __name__ == "__main__":
    main()
