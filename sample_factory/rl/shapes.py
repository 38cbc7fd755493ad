"""Checks at the door of the functions in `rl`.

Trajectories are `[N, T]` (N trajectories of T steps) in all of `rl`; broadcasting would turn a forgotten
axis into wrong numbers instead of an error, so every function that takes several tensors checks them first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def check_shapes(expected: Sequence[int], **tensors: Tensor) -> None:
    """Raises ValueError unless all tensors have the expected shape."""
    for name, tensor in tensors.items():
        if tensor.shape != tuple(expected):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {tuple(expected)}")


def check_bool(**tensors: Tensor) -> None:
    """Raises ValueError unless all tensors are boolean: `~` of an integer 1 is -2, not 0."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.bool:
            raise ValueError(f"{name} has dtype {tensor.dtype}, expected torch.bool")


def check_trajectories(values: Tensor, *, dones: Tensor, valids: Tensor, **others: Tensor) -> None:
    """Raises ValueError unless `values` is `[N, T + 1]`, everything else `[N, T]`, and the flags boolean."""
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(f"values has shape {tuple(values.shape)}, expected [N, T + 1] with T >= 1")
    expected = (values.shape[0], values.shape[1] - 1)
    check_shapes(expected, dones=dones, valids=valids, **others)
    check_bool(dones=dones, valids=valids)
