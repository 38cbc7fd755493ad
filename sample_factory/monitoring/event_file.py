"""TensorBoard event files, written directly: scalars and histograms, nothing else.

Used by `summaries`. The usual writer packages either import torch, which the main process must not, or
hand events to a thread whose death by a full disk blocks the caller for ever; the format itself is small.

A file is a sequence of records `length, crc(length), data, crc(data)`, where data is a protobuf `Event`.

Invariant: every write is complete on its own, so a reader following the file meets no half-built record.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_CRC32C_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8

# Protobuf wire types.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class EventFile:
    """One append-only event file in a directory that TensorBoard watches."""

    def __init__(self, directory: Path, wall_time: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a directory in name order, so the time comes first.
        name = f"events.out.tfevents.{int(wall_time):010d}.{socket.gethostname()}"
        self.path, self._descriptor = _create_new(directory, name)
        self._pending = bytearray(_record(_double(1, wall_time) + _text(3, "brain.Event:2")))

    def add_scalars(self, scalars: Mapping[str, float], step: int, wall_time: float) -> None:
        """Queues one value per tag; `flush` writes them."""
        values = [_text(1, tag) + _float(2, value) for tag, value in scalars.items()]
        self._add(values, step, wall_time)

    def add_histogram(self, tag: str, counts: Sequence[int], step: int, wall_time: float) -> None:
        """Queues a histogram whose bucket i holds `counts[i]` observations of the value i."""
        total = sum(counts)
        seen = [i for i, count in enumerate(counts) if count]
        moments = (
            float(seen[0] if seen else 0),
            float(seen[-1] if seen else 0),
            float(total),
            float(sum(i * count for i, count in enumerate(counts))),
            float(sum(i * i * count for i, count in enumerate(counts))),
        )
        histogram = b"".join(_double(number, value) for number, value in enumerate(moments, start=1))
        histogram += _doubles(6, [i + 0.5 for i in range(len(counts))]) + _doubles(
            7, [float(c) for c in counts]
        )
        self._add([_text(1, tag) + _nested(5, histogram)], step, wall_time)

    def _add(self, values: Sequence[bytes], step: int, wall_time: float) -> None:
        summary = b"".join(_nested(1, value) for value in values)
        self._pending += _record(_double(1, wall_time) + _integer(2, step) + _nested(5, summary))

    def flush(self) -> None:
        """Writes what is queued.

        Raises:
            OSError: the disk refused; the file may end in a torn record and should not be written again.
        """
        while self._pending:
            written = os.write(self._descriptor, self._pending)
            del self._pending[:written]

    def close(self) -> None:
        """Closes the file; what was not flushed is dropped."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _create_new(directory: Path, name: str) -> tuple[Path, int]:
    """Creates a file that did not exist: a session resumed at once must not append to a torn record."""
    for attempt in itertools.count():
        path = directory / f"{name}.{attempt}"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            continue
    raise AssertionError("itertools.count() is endless")


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    rotated = (crc >> 15) | (crc << 17)
    return struct.pack("<I", (rotated + _MASK_DELTA) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum (RFC 3720) that event files use."""
    table = _crc_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = (remainder >> 1) ^ (_CRC32C_POLYNOMIAL if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append((value & 0x7F) | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _key(field: int, wire_type: int) -> bytes:
    return _varint((field << 3) | wire_type)


def _integer(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _key(field, _FIXED64) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # a loss may leave the range of 32 bits before training is stopped
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _key(field, _FIXED32) + packed


def _nested(field: int, payload: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(payload)) + payload


def _text(field: int, value: str) -> bytes:
    return _nested(field, value.encode())


def _doubles(field: int, values: Sequence[float]) -> bytes:
    return _nested(field, struct.pack(f"<{len(values)}d", *values))
