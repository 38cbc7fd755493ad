"""Processes that publish weights; importable, so that they reach their process by name."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.weights import WeightsLayout, WeightStore
from sample_factory.processes.shared_memory import SharedArrays

LAYOUT = WeightsLayout(
    {"encoder": ((300, 100), "float32"), "head": ((5,), "float64"), "count": ((), "int64")}
)


def weights_of(version: int) -> dict[str, np.ndarray]:
    """Weights that are all equal to their version."""
    return {name: np.full(shape, version, dtype) for name, (shape, dtype) in LAYOUT.tensors.items()}


def publish_for_ever(arrays: SharedArrays) -> None:
    store = WeightStore(LAYOUT, arrays)
    version = store.version
    while True:
        version += 1
        store.publish(weights_of(version), version)


def die_inside_publish(arrays: SharedArrays, version: int, tensors_written: int) -> None:
    """Writes `tensors_written` tensors and the first element of the next one, then is gone."""
    copyto: Any = np.copyto
    written = 0

    def copy_or_die(target: np.ndarray, source: np.ndarray) -> None:
        nonlocal written
        if written == tensors_written:
            target.reshape(-1)[:1] = source.reshape(-1)[:1]
            os._exit(9)
        written += 1
        copyto(target, source)

    np.copyto = copy_or_die  # type: ignore[assignment]
    WeightStore(LAYOUT, arrays).publish(weights_of(version), version)


def telltale_weights(layout: WeightsLayout, number: int) -> dict[str, np.ndarray]:
    """Weights with which a network of fully connected layers answers the same number everywhere.

    The first choice's logit passes through every layer, the others and the value come from the last biases.
    So outputs that differ come from weights that do not belong together.
    """
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.tensors.items()}
    hidden = [name.removesuffix(".bias") for name in arrays if name.endswith(".bias") and "head" not in name]
    arrays[f"{hidden[0]}.bias"][0] = number
    for name in hidden[1:]:
        arrays[f"{name}.weight"][0, 0] = 1
    arrays["action_head.linear.weight"][0, 0] = 1
    arrays["action_head.linear.bias"][1:] = number
    arrays["value_head.bias"][:] = number
    return arrays


def publish_telltales_for_ever(arrays: SharedArrays, layout: WeightsLayout, first: int) -> None:
    """Version v of a policy answers `first + v`."""
    store = WeightStore(layout, arrays)
    version = 0
    while True:
        store.publish(telltale_weights(layout, first + version), version)
        version += 1
