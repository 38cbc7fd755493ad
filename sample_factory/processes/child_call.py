"""Calls a function in a child process, so that whatever it imports, leaks or crashes stays there."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

from sample_factory.processes.channels import ReportPipe, ReportWriter
from sample_factory.processes.stacks import StackFile, write_stacks_to
from sample_factory.processes.worker import die_with_parent, let_fork_server_end


class ChildCallError(RuntimeError):
    """The function raised, or its process died; `trace` tells where."""

    def __init__(self, message: str, trace: str = ""):
        super().__init__(message)
        self.trace = trace


def call_in_child(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    """Returns `function(*args)` computed in a process of its own.

    Args:
        function: importable, so that it pickles by name.
        args: must pickle.
        timeout: seconds after which the process is killed.

    Raises:
        ChildCallError: carries the exception that the function raised, if any, as its cause; for a function
            that hangs or crashes, its stack.
    """
    context = multiprocessing.get_context("forkserver")
    pipe = ReportPipe()
    stack = StackFile()
    process = context.Process(target=_run, args=(pipe.writer, stack, function, args))
    process.start()
    try:
        return _await_result(process, pipe, function.__name__, timeout)
    except ChildCallError as error:
        if not error.trace:
            error.trace = stack.ask(process) if process.is_alive() else stack.take()
        raise
    finally:
        if process.is_alive():
            process.kill()
        process.join(5.0)
        process.close()
        pipe.close()
        stack.close()


def _await_result(process: Any, pipe: ReportPipe, name: str, timeout: float) -> Any:
    deadline = time.monotonic() + timeout
    poll = select.poll()
    poll.register(pipe.read_fd, select.POLLIN)
    poll.register(process.sentinel, select.POLLIN)
    while (remaining := deadline - time.monotonic()) > 0:
        poll.poll(remaining * 1000)
        ended = not process.is_alive()
        for kind, value, trace in pipe.drain():
            if kind == "result":
                return value
            raise ChildCallError(str(value), trace) from value
        if ended:
            raise ChildCallError(f"the process of {name} ended with exit code {process.exitcode}")
    raise ChildCallError(f"{name} did not finish within {timeout:.0f} s")


def _run(writer: ReportWriter, stack_fd: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    let_fork_server_end()
    die_with_parent()
    write_stacks_to(stack_fd.detach())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        writer.send(("result", function(*args), ""))
    except Exception as error:  # noqa: BLE001  the caller gets it
        _send_error(writer, error)
    writer.flush_within(10.0)
    os._exit(0)  # the environment's library may not survive its own tear-down


def _send_error(writer: ReportWriter, error: Exception) -> None:
    trace = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  exceptions of other libraries may not pickle, or not come back
        error = RuntimeError(f"{type(error).__name__}: {error}")
    writer.send(("error", error, trace))
