"""Processes that workers have started, such as games and simulators, and their end when a worker is gone.

A worker that is killed cannot end its children, and they would live on for ever. The supervisor notes them
while the worker lives and ends those that have outlived it.

Invariant: a number that was given to another process meanwhile is told apart by when the process started.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

_MAX_GENERATIONS = 8


@dataclass(frozen=True)
class Descendant:
    """A process, and the clock tick in which it started."""

    pid: int
    started: int


def descendants(pid: int) -> frozenset[Descendant]:
    """All living processes below one; empty where the platform has no /proc."""
    found: set[Descendant] = set()
    generation = [pid]
    for _ in range(_MAX_GENERATIONS):
        generation = [child for parent in generation for child in _children(parent)]
        if not generation:
            break
        found |= {Descendant(child, started) for child in generation if (started := _start_of(child))}
    return frozenset(found)


def end_survivors(noted: frozenset[Descendant]) -> list[int]:
    """Kills those that live; returns their numbers."""
    survivors = [process.pid for process in noted if _start_of(process.pid) == process.started]
    for pid in survivors:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return survivors


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
    return found


def _start_of(pid: int) -> int:
    """The tick in which a living process started; 0 for one that has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
