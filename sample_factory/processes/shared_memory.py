"""Named numpy arrays in one anonymous shared-memory slab.

A slab is a memfd: it has no name in the file system, so it is gone with the last process that maps it, also
after `kill -9`. It travels to a child process as a file descriptor when a worker spec is pickled for it.

Invariant: every process that unpickles the same `SharedArrays` sees the same bytes.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any

import numpy as np

ALIGNMENT = 64  # one cache line: neighbouring arrays written by different processes do not share one


@dataclass(frozen=True)
class ArraySpec:
    """Shape, element type and initial value of one array."""

    shape: tuple[int, ...]
    dtype: str
    fill: float = 0

    @property
    def nbytes(self) -> int:
        """Bytes the array occupies."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def slab_size(specs: Mapping[str, ArraySpec]) -> int:
    """Bytes a slab with these arrays takes, alignment included."""
    return sum(_aligned(spec.nbytes) for spec in specs.values())


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class SharedArrays(Mapping[str, np.ndarray]):
    """A read-only mapping from names to writable arrays that live in one slab."""

    def __init__(self, specs: Mapping[str, ArraySpec], label: str = "sample_factory"):
        fd = os.memfd_create(label, os.MFD_CLOEXEC)
        os.ftruncate(fd, max(slab_size(specs), mmap.PAGESIZE))
        self._map(fd, dict(specs))
        for name, spec in specs.items():
            if spec.fill:  # a fresh slab is zero and not yet backed by pages; don't touch it needlessly
                self._arrays[name].fill(spec.fill)

    def _map(self, fd: int, specs: dict[str, ArraySpec]) -> None:
        self._fd = fd
        self._specs = specs
        buffer = mmap.mmap(fd, max(slab_size(specs), mmap.PAGESIZE))
        self._arrays: dict[str, np.ndarray] = {}
        offset = 0
        for name, spec in specs.items():
            self._arrays[name] = np.ndarray(spec.shape, spec.dtype, buffer, offset)
            offset += _aligned(spec.nbytes)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Any:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @classmethod
    def of_descriptor(cls, fd: int, specs: Mapping[str, ArraySpec]) -> SharedArrays:
        """The arrays of a slab that exists; `specs` may leave out the last ones."""
        arrays = cls.__new__(cls)
        arrays._map(fd, dict(specs))
        return arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (reduction.DupFd(self._fd), self._specs)

    def close(self) -> None:
        """Closes the descriptor; the mapping itself lives as long as an array refers to it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _attach(dup_fd: Any, specs: dict[str, ArraySpec]) -> SharedArrays:
    return SharedArrays.of_descriptor(dup_fd.detach(), specs)
