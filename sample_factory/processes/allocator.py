"""The C library's memory allocator, told to keep what is freed.

Training allocates and frees the same arrays of some hundred kilobytes over and over. By default such an array
is mapped from the kernel and given back each time, and every page of it is cleared and faulted in anew.

Invariant: only speed and the size of an idle process change.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # parameters of mallopt(3)
_LARGEST_KEPT = 32 << 20  # mallopt refuses more
_KEPT_IN_ALL = 512 << 20
_GROW_BY = 4 << 20


def keep_freed_memory() -> None:
    """Lets this process reuse freed arrays of up to 32 MB; nothing where the C library is not glibc."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, _KEPT_IN_ALL)
        mallopt(_TOP_PAD, _GROW_BY)
