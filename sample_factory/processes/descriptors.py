"""Many file descriptors on their way to a child process.

The start of a process carries some 250 descriptors, and a session with over a hundred workers has more pipes
than that. Here they travel inside a socket: the child is given one descriptor and reads the others from it.

Invariant: a child gets its own copies, in the order in which they were given.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from multiprocessing import reduction
from typing import Any

_PER_MESSAGE = 250  # the kernel takes 253 at most


class DescriptorParcel:
    """Pickled for a child process it becomes, there, a list of descriptors."""

    def __init__(self, descriptors: Sequence[int]):
        self._descriptors = list(descriptors)
        self._last_sent: socket.socket | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        self.close()
        ours, theirs = socket.socketpair()
        with ours:
            for start in range(0, len(self._descriptors), _PER_MESSAGE):
                socket.send_fds(ours, [b"."], self._descriptors[start : start + _PER_MESSAGE])
        self._last_sent = theirs  # must be open until the process has been started
        return _unpack, (reduction.DupFd(theirs.fileno()), len(self._descriptors))

    def close(self) -> None:
        """Closes what the last child was sent through; the descriptors themselves stay open."""
        if self._last_sent is not None:
            self._last_sent.close()
            self._last_sent = None


def _unpack(dup_fd: Any, count: int) -> list[int]:
    received: list[int] = []
    with socket.socket(fileno=dup_fd.detach()) as parcel:
        while len(received) < count:
            received += socket.recv_fds(parcel, 1, _PER_MESSAGE)[1]
    for descriptor in received:
        os.set_inheritable(descriptor, False)
    return received
