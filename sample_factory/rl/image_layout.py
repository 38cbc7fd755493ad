"""Byte images with their channels last, the order in which convolutions on a CPU read memory.

Environments give images as `[C, H, W]`. Rollout workers turn each of them once, while writing it into the
store, so that neither acting nor training has to (docs/decisions/014).

Invariant: the same numbers in another order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


def turned_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """The shape `[H, W, C]` of an image `[C, H, W]`."""
    channels, height, width = shape
    return height, width, channels


def write_turned(images: Any, target: np.ndarray) -> None:
    """Writes images `[..., C, H, W]` into an array `[..., H, W, C]`."""
    images = np.asarray(images)
    *leading, height, width, channels = target.shape
    if images.shape != (*leading, channels, height, width):
        raise ValueError(f"an image of shape {images.shape} where {(channels, height, width)} was promised")
    opencv = sys.modules.get("cv2")  # most environments that draw have loaded it; nobody else has to
    if opencv is not None and images.dtype == target.dtype == np.uint8 and images.ndim == 3:
        opencv.merge(list(images), target)  # in less than half the time
        return
    # Plane by plane: a single assignment would loop over the few channels inside, at a quarter of the speed.
    for channel in range(channels):
        target[..., channel] = images[..., channel, :, :]
