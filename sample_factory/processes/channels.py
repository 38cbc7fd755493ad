"""Channels between components: records of four integers, and reports of any size.

`PipeChannel` carries fixed-size records from many writers to one reader. A pipe write of up to 4 KiB is
atomic in the kernel, so there is no lock a dying process could take along: a writer killed at any instant
has written all of its records or none. `LocalChannel` is the same thing inside one process. `ReportPipe`
carries pickled objects from one writer to one reader and never blocks the writer.

Invariant: a channel is sized so that it cannot fill; a full one is a bug and raises.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import reduction
from typing import Any, Protocol, overload

from sample_factory.processes.descriptors import DescriptorParcel

Record = tuple[int, int, int, int]

_RECORD = struct.Struct("<4i")
_RECORDS_PER_WRITE = select.PIPE_BUF // _RECORD.size
_READ_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_MAX_UNSENT_BYTES = 64 << 20


class ChannelFullError(RuntimeError):
    """A channel that was sized never to fill is full."""


class Channel(Protocol):
    """What components see: send never waits, receive waits at most `timeout` seconds."""

    def send(self, records: Iterable[Record]) -> None:
        """Appends records; whole groups of up to 256 arrive together or not at all."""

    def receive(self, timeout: float = 0.0) -> list[Record]:
        """Everything that has arrived; an empty list after `timeout` seconds of silence."""

    def close(self) -> None:
        """Gives back what the channel holds in this process."""


class LocalChannel:
    """A channel between components that one process polls in turn."""

    def __init__(self) -> None:
        self.records: deque[Record] = deque()

    def send(self, records: Iterable[Record]) -> None:
        """See `Channel`."""
        self.records.extend(records)

    def receive(self, timeout: float = 0.0) -> list[Record]:
        """See `Channel`; there is nobody to wait for, so `timeout` is ignored."""
        received = list(self.records)
        self.records.clear()
        return received

    def close(self) -> None:
        """Nothing to close."""


class PipeChannel:
    """A channel between processes: many writers, one reader."""

    def __init__(self, capacity: int):
        """Makes room for `capacity` records (the kernel may give more)."""
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # The kernel does not spread one write over two pages, so pages may be little more than half full.
        wanted = max(2 * capacity * _RECORD.size, select.PIPE_BUF)
        try:
            fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, wanted)
        except PermissionError:
            if fcntl.fcntl(write_fd, fcntl.F_GETPIPE_SZ) < wanted:
                raise ChannelFullError(
                    f"a pipe of {wanted} bytes exceeds /proc/sys/fs/pipe-max-size; "
                    "use fewer environments (--num_envs_per_worker) or raise that limit"
                ) from None
        self._open(read_fd, write_fd)

    def _open(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def send(self, records: Iterable[Record]) -> None:
        """See `Channel`."""
        packed = [_RECORD.pack(*record) for record in records]
        for start in range(0, len(packed), _RECORDS_PER_WRITE):
            try:
                os.write(self._write_fd, b"".join(packed[start : start + _RECORDS_PER_WRITE]))
            except BlockingIOError:
                raise ChannelFullError("a channel is full though it was sized not to fill") from None

    def receive(self, timeout: float = 0.0) -> list[Record]:
        """See `Channel`."""
        if timeout > 0 and not self._poll.poll(timeout * 1000):
            return []
        try:
            data = os.read(self._read_fd, _READ_BYTES)
        except BlockingIOError:
            return []
        return list(_RECORD.iter_unpack(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach_channel, (reduction.DupFd(self._read_fd), reduction.DupFd(self._write_fd))

    @property
    def descriptors(self) -> tuple[int, int]:
        """The ends to read from and to write to."""
        return self._read_fd, self._write_fd

    @classmethod
    def of_descriptors(cls, read_fd: int, write_fd: int) -> PipeChannel:
        """The channel whose ends these are."""
        channel = cls.__new__(cls)
        channel._open(read_fd, write_fd)
        return channel

    def close(self) -> None:
        """Closes both ends in this process."""
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1


def _attach_channel(read_fd: Any, write_fd: Any) -> PipeChannel:
    return PipeChannel.of_descriptors(read_fd.detach(), write_fd.detach())


class PipeChannels(Sequence[PipeChannel]):
    """Channels that travel to a child process together, however many they are."""

    def __init__(self, channels: Sequence[PipeChannel]):
        self._channels = list(channels)
        self._parcel = DescriptorParcel([fd for channel in channels for fd in channel.descriptors])

    @overload
    def __getitem__(self, index: int) -> PipeChannel: ...

    @overload
    def __getitem__(self, index: slice) -> list[PipeChannel]: ...

    def __getitem__(self, index: int | slice) -> PipeChannel | list[PipeChannel]:
        return self._channels[index]

    def __len__(self) -> int:
        return len(self._channels)

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach_channels, (self._parcel,)

    def close(self) -> None:
        """Closes all of them in this process."""
        self._parcel.close()
        for channel in self._channels:
            channel.close()


def _attach_channels(descriptors: list[int]) -> PipeChannels:
    pairs = zip(descriptors[::2], descriptors[1::2], strict=True)
    return PipeChannels([PipeChannel.of_descriptors(read_fd, write_fd) for read_fd, write_fd in pairs])


class Reporter(Protocol):
    """Where a component sends what the session should know."""

    def send(self, report: Any) -> None:
        """Queues one picklable object."""


class LocalReporter:
    """Reports between components of one process."""

    def __init__(self) -> None:
        self._reports: deque[Any] = deque()

    def send(self, report: Any) -> None:
        """See `Reporter`."""
        self._reports.append(report)

    def drain(self) -> Iterator[Any]:
        """Yields and removes all reports."""
        while self._reports:
            yield self._reports.popleft()


class ReportWriter:
    """The sending end of a `ReportPipe`; keeps what the pipe can't take yet for the next call."""

    def __init__(self, fd: int):
        self._fd = fd
        self._unsent = bytearray()

    def send(self, report: Any) -> None:
        """See `Reporter`."""
        payload = pickle.dumps(report, protocol=pickle.HIGHEST_PROTOCOL)
        self._unsent += _LENGTH.pack(len(payload)) + payload
        if len(self._unsent) > _MAX_UNSENT_BYTES:
            raise ChannelFullError("the main process has not read reports for too long")
        self.flush()

    def flush(self) -> None:
        """Sends as much as the pipe takes without waiting."""
        while self._unsent:
            try:
                written = os.write(self._fd, self._unsent[:_READ_BYTES])
            except BlockingIOError:
                return
            del self._unsent[:written]

    def flush_within(self, seconds: float) -> None:
        """Sends the rest before an exit, waiting at most `seconds` for the reader."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while self._unsent and poll.poll(seconds * 1000):
            self.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach_writer, (reduction.DupFd(self._fd),)


def _attach_writer(fd: Any) -> ReportWriter:
    return ReportWriter(fd.detach())


class ReportPipe:
    """Reports of one worker process to the main process; a new pipe for each life of the worker.

    A writer killed inside a write leaves half a frame behind, which only this pipe's reader sees and drops.
    """

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.writer = ReportWriter(self._write_fd)
        self._received = bytearray()

    def drain(self) -> Iterator[Any]:
        """Yields all complete reports."""
        while True:
            try:
                data = os.read(self.read_fd, _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                break
            self._received += data
        yield from self._complete_frames()

    def _complete_frames(self) -> Iterator[Any]:
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            end = _LENGTH.size + length
            if len(self._received) < end:
                break
            frame = self._received[_LENGTH.size : end]
            del self._received[:end]  # before the yield: the caller may not come back for the rest
            yield pickle.loads(frame)

    def close(self) -> None:
        """Closes both ends in this process."""
        for fd in (self.read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self.read_fd = self._write_fd = -1
