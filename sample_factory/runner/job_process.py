"""Runs the command of one job, beside it for as long as it lives, and writes down how it ended.

Back ends start this file by its path with `python -I -S`, on whatever machine the job runs; it may use
the standard library only, and must not be imported by others. Signals arrive here and are passed on:
SIGTERM, SIGINT and SIGHUP ask the job to end, SIGUSR1 asks it to save and leave (a time limit is near),
SIGQUIT kills it.

Invariant: the result file says who runs the job from before its command starts, and its exit code before
this process ends; so a launcher that was not there can find out both. `results` reads the file.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

HEARTBEAT_SEC = 30.0
REQUEUE_EXIT_CODE = 75
_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DRAIN_POLL_SEC = 0.05


class JobProcess:
    """One attempt at one job."""

    def __init__(self, options: argparse.Namespace):
        self._options = options
        self._result = {
            "attempt": options.attempt,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": time.time(),
            "stopped": None,
            "exit_code": None,
            "timed_out": False,
            "stopped_by": None,
            "requeued": False,
        }
        self._kill_at = float("inf")
        self._warn_at = float("inf")
        if options.time_limit > 0:
            self._warn_at = time.monotonic() + max(options.time_limit - options.margin, 0.0)

    def run(self) -> int:
        """The whole life of the attempt; returns the exit code of this process."""
        if self._options.die_with_parent:
            _die_with_parent(os.getppid())
        wakeup = _catch_signals()
        self._write_result()
        host, moment = self._result["host"], time.strftime("%Y-%m-%d %H:%M:%S")
        _say(f"=== attempt {self._options.attempt} on {host}, {moment} ===")
        environment = {**os.environ, **_variables_from(self._options.env_from_stdin)}
        try:
            os.chdir(self._options.cwd)
            child = self._start(environment)
        except OSError as error:
            _say(f"error: {error.strerror}: {error.filename}")
            return self._end(126 if isinstance(error, PermissionError) else 127)
        exit_code = self._wait(child, wakeup)
        self._drain(child, wakeup)
        return self._end(exit_code)

    def _start(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        return subprocess.Popen(
            self._options.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # so that everything the job starts can be ended with it
            preexec_fn=lambda: _die_with_parent(parent),
        )

    def _wait(self, child: subprocess.Popen[bytes], wakeup: int) -> int:
        heartbeat_at = time.monotonic() + HEARTBEAT_SEC
        while (exit_code := child.poll()) is None:
            deadline = min(heartbeat_at, self._warn_at, self._kill_at)
            select.select([wakeup], [], [], max(0.0, deadline - time.monotonic()))
            for number in _arrived(wakeup):
                self._pass_on(number, child)
            now = time.monotonic()
            if now >= heartbeat_at:
                heartbeat_at = now + HEARTBEAT_SEC
                self._beat()
            if now >= self._warn_at:
                self._warn_at = float("inf")
                self._result["timed_out"] = True
                self._ask_to_leave(child)
            if now >= self._kill_at:
                _signal_group(child.pid, signal.SIGKILL)
        return exit_code

    def _pass_on(self, number: int, child: subprocess.Popen[bytes]) -> None:
        if number == signal.SIGUSR1:
            self._result["timed_out"] = True
            self._ask_to_leave(child)
        elif number == signal.SIGQUIT:
            self._result["stopped_by"] = signal.Signals(number).name
            self._kill_at = 0.0
        elif number in _STOP_SIGNALS:
            self._result["stopped_by"] = signal.Signals(number).name
            self._kill_at = min(self._kill_at, time.monotonic() + self._options.grace)
            _signal_group(child.pid, number)

    def _ask_to_leave(self, child: subprocess.Popen[bytes]) -> None:
        """To the command alone: by default SIGUSR1 kills, and the job's other processes may not expect it."""
        self._kill_at = min(self._kill_at, time.monotonic() + self._options.margin)
        child.send_signal(signal.SIGUSR1)

    def _drain(self, child: subprocess.Popen[bytes], wakeup: int) -> None:
        """What a command leaves behind ends with it; if the job was told to stop, its grace still holds."""
        while self._result["stopped_by"] and time.monotonic() < self._kill_at:
            if not _signal_group(child.pid, 0):
                return
            # The end of others' children is no event; signals are, and SIGQUIT ends the grace.
            select.select([wakeup], [], [], _DRAIN_POLL_SEC)
            for number in _arrived(wakeup):
                self._pass_on(number, child)
        _signal_group(child.pid, signal.SIGKILL)

    def _end(self, exit_code: int) -> int:
        self._result["exit_code"] = exit_code
        self._result["stopped"] = time.time()
        # After SIGTERM it is the scheduler's turn: it requeues what it pre-empted, but not what a user
        # cancelled.
        requeue = exit_code == REQUEUE_EXIT_CODE and not self._result["stopped_by"]
        if self._options.slurm_requeue and requeue:
            # Written first, because Slurm ends this process when it requeues.
            self._result["requeued"] = True
            self._write_result()
            self._result["requeued"] = _slurm_requeue()
        self._write_result()
        return exit_code if exit_code >= 0 else 128 - exit_code

    def _write_result(self) -> None:
        path = self._options.result
        temporary = f"{path}.{os.getpid()}"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(self._result, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            # The job is worth more than the note about it.
            _say(f"error: {path} can't be written ({error.strerror}).")

    def _beat(self) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._options.result)


def _catch_signals() -> int:
    """Turns signals into bytes that can be waited for; handlers, unlike ignoring, are not inherited."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_STOP_SIGNALS, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    return reading


def _arrived(wakeup: int) -> bytes:
    try:
        return os.read(wakeup, 4096)
    except BlockingIOError:
        return b""


def _signal_group(group: int, number: int) -> bool:
    """Whether anybody is left in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _die_with_parent(parent: int) -> None:
    """Asks the kernel for SIGTERM when the parent dies; the parent may have died already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)


def _slurm_requeue() -> bool:
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    job = f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")
    try:
        # A job that is being cancelled must stay so; its command may have ended before the signal came here.
        asked = subprocess.run(
            ["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() != "RUNNING":
            return False
        done = subprocess.run(["scontrol", "requeue", job], stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        _say(f"error: {error.filename} can't be run ({error.strerror}).")
        return False
    return done.returncode == 0


def _variables_from(stdin: bool) -> dict[str, str]:
    """Variables that must not be seen in a list of processes come as JSON on standard input."""
    return dict(json.load(sys.stdin)) if stdin else {}


def _say(text: str) -> None:
    """A note in the job's log; a broken terminal is no reason to end the job."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"{text}\n".encode())


def parse_args(argv: list[str]) -> argparse.Namespace:
    """The command line, written by `commands`: options, `--`, the job's command."""
    parser = argparse.ArgumentParser(description="Runs one job and writes down how it ended.")
    parser.add_argument("result", help="the file that tells how it ended")
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--cwd", default=".")
    parser.add_argument("--time_limit", type=float, default=0.0, help="seconds; 0 is none")
    parser.add_argument("--margin", type=float, default=120.0, help="seconds a job gets to save and leave")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--slurm_requeue", action="store_true", help="after exit code 75 or SIGUSR1")
    parser.add_argument("--die_with_parent", action="store_true")
    parser.add_argument("--env_from_stdin", action="store_true")
    # Split by hand: argparse would also take a "--" that belongs to the command.
    border = argv.index("--")
    options = parser.parse_args(argv[:border])
    options.command = argv[border + 1 :]
    return options


if __name__ == "__main__":
    sys.exit(JobProcess(parse_args(sys.argv[1:])).run())
