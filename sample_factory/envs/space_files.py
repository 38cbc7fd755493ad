"""Spaces as JSON, so that a policy can be used where its environment is not installed.

Exported and published policies carry their spaces this way.

Invariant: `space_from_json(space_to_json(space))` has the shape, type and bounds of `space`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as numbers, text, lists and dictionaries.

    Raises:
        TypeError: there is a space in it that policies neither observe nor act in.
    """
    if isinstance(space, spaces.Box):
        return {
            "kind": "Box",
            "shape": list(space.shape),
            "dtype": str(space.dtype),
            "low": _bounds(space.low),
            "high": _bounds(space.high),
        }
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "shape": list(space.shape)}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Dict):
        # A list of pairs: JSON readers need not keep the order of keys, and networks depend on it.
        return {"kind": "Dict", "spaces": [[key, space_to_json(part)] for key, part in space.spaces.items()]}
    raise TypeError(f"{space} can't be stored.")


def space_from_json(content: dict[str, Any]) -> spaces.Space[Any]:
    """The space that `space_to_json` described."""
    kind = content["kind"]
    if kind == "Box":
        shape, dtype = tuple(content["shape"]), np.dtype(content["dtype"])
        low, high = (np.full(shape, _numbers(content[name]), dtype) for name in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(content["n"], start=content["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.array(content["nvec"]), start=np.array(content["start"]))
    if kind == "MultiBinary":
        shape = content["shape"]
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part) for part in content["spaces"]])
    return spaces.Dict({key: space_from_json(part) for key, part in content["spaces"]})


def _bounds(values: np.ndarray) -> Any:
    """One number where all are equal, as in pictures; infinities, which JSON does not have, as text."""
    if values.size and (values == values.flat[0]).all():
        values = values.flat[0]
    return _plain(np.asarray(values).tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return str(value) if value in (float("inf"), float("-inf")) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return float(value) if isinstance(value, str) else value
