"""From whatever an environment observes to named arrays.

Everything behind the environment sees a flat Dict of Boxes. An environment that observes a bare Box stays as
it is and its observation goes under the key `obs`: a wrapper around every environment would cost more than a
step of CartPole. Only spaces that are no arrays (Discrete, Tuple, nested Dict, ...) are encoded by a wrapper.

Invariant: `observation_dict_space`, `obs_keys` and `dict_obs` agree on names and order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.spaces import UnsupportedSpaceError
from sample_factory.envs.wrappers import EnvWrapper

BARE_KEY = "obs"  # where a bare observation is stored

Encoder = Callable[[Any], np.ndarray]


class Leaf(NamedTuple):
    """One named array of an encoded observation, and how to get it from the whole observation."""

    key: str
    space: spaces.Box
    encode: Encoder


def is_text(space: spaces.Space[Any]) -> bool:
    """Whether a space holds strings, which networks cannot read and buffers do not keep."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and space.dtype.kind in "US")


def obs_keys(env: Any) -> tuple[str, ...] | None:
    """The keys to keep of a Dict observation; None when the environment observes a bare array."""
    space = env.observation_space
    if not isinstance(space, spaces.Dict):
        return None
    return tuple(key for key, value in space.spaces.items() if not is_text(value))


def observation_dict_space(env: Any) -> spaces.Dict:
    """What buffers and networks see of an environment made by `make_env`: a flat Dict of Boxes without text.

    64-bit and 16-bit floats become float32, the precision of buffers and networks.
    """
    space, keys = env.observation_space, obs_keys(env)
    if keys is None:
        return spaces.Dict({BARE_KEY: _storable(space)})
    return spaces.Dict({key: _storable(space[key]) for key in keys})


def dict_obs(env: Any, obs: Any) -> dict[str, np.ndarray]:
    """One agent's observation as named arrays; for evaluation, workers write into their buffers directly."""
    keys = obs_keys(env)
    if keys is None:
        return {BARE_KEY: np.asarray(obs)}
    return {key: np.asarray(obs[key]) for key in keys}


def needs_encoding(space: spaces.Space[Any]) -> bool:
    """Whether a space is anything but an array, or a flat Dict of arrays and text."""
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else (space,)
    kept = [part for part in parts if not is_text(part)]
    return not kept or not all(isinstance(part, spaces.Box) and part.shape for part in kept)


class EncodedObservations(EnvWrapper):
    """Turns any observation gymnasium can describe into an array or a flat Dict of arrays.

    Discrete and MultiDiscrete become one-hot vectors, MultiBinary a vector of floats, a Tuple of vectors one
    vector; nested Dict keys are joined by `/`; elements of a Tuple with images get keys of their own.
    """

    def __init__(self, env: gymnasium.Env, env_name: str):
        super().__init__(env)
        space = env.observation_space
        self._leaves = list(_leaves(space, "" if isinstance(space, spaces.Dict) else BARE_KEY, env_name))
        if not self._leaves:
            raise UnsupportedSpaceError(f"{env_name} observes only text, which policies cannot read.")
        self._bare = not isinstance(space, spaces.Dict) and len(self._leaves) == 1
        self.observation_space = (
            self._leaves[0].space
            if self._bare
            else spaces.Dict({leaf.key: leaf.space for leaf in self._leaves})
        )
        self._encode = self._encode_list if self.is_multiagent else self._encode_one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Resets the environment and encodes its first observation."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._encode(obs), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps the environment and encodes what it observes."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._encode(obs), reward, terminated, truncated, info

    def _encode_one(self, obs: Any) -> Any:
        if self._bare:
            return self._leaves[0].encode(obs)
        return {leaf.key: leaf.encode(obs) for leaf in self._leaves}

    def _encode_list(self, obs: Any) -> Any:
        return [self._encode_one(entry) for entry in obs]


def _storable(space: spaces.Box) -> spaces.Box:
    if not np.issubdtype(space.dtype, np.floating) or space.dtype == np.float32:
        return space
    with np.errstate(over="ignore"):  # bounds beyond float32 become infinite, which is what they mean
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def _leaves(space: spaces.Space[Any], key: str, env_name: str) -> Iterator[Leaf]:
    """The arrays an observation is made of, depth first."""
    if is_text(space):
        return
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            for leaf in _leaves(part, f"{key}/{name}" if key else name, env_name):
                yield Leaf(leaf.key, leaf.space, _at(name, leaf.encode))
    elif isinstance(space, spaces.Tuple):
        yield from _tuple_leaves(space, key, env_name)
    else:
        yield _leaf(space, key, env_name)


def _tuple_leaves(space: spaces.Tuple, key: str, env_name: str) -> Iterator[Leaf]:
    parts = [
        Leaf(leaf.key, leaf.space, _at(index, leaf.encode))
        for index, part in enumerate(space.spaces)
        for leaf in _leaves(part, key if index == 0 else f"{key}_{index}", env_name)
    ]
    if any(len(part.space.shape) > 1 for part in parts):
        yield from parts
        return
    low = np.concatenate([part.space.low.astype(np.float32) for part in parts])
    high = np.concatenate([part.space.high.astype(np.float32) for part in parts])
    encoders = [part.encode for part in parts]
    yield Leaf(
        key,
        spaces.Box(low, high, dtype=np.float32),
        lambda obs: np.concatenate([encode(obs) for encode in encoders], dtype=np.float32),
    )


def _leaf(space: spaces.Space[Any], key: str, env_name: str) -> Leaf:
    if isinstance(space, spaces.Box):
        if space.shape:
            return Leaf(key, space, np.asarray)
        scalar = spaces.Box(space.low.reshape(1), space.high.reshape(1), dtype=space.dtype.type)
        return Leaf(key, scalar, lambda obs: np.asarray(obs, dtype=space.dtype).reshape(1))
    if isinstance(space, spaces.Discrete):
        return Leaf(key, _unit_box(int(space.n)), _one_hot(np.array([space.n]), np.array([space.start])))
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.reshape(-1)
        return Leaf(key, _unit_box(int(sizes.sum())), _one_hot(sizes, space.start.reshape(-1)))
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return Leaf(key, _unit_box(size), lambda obs: np.asarray(obs, dtype=np.float32).reshape(size))
    raise UnsupportedSpaceError(
        f"{env_name} observes {space} at {key!r}, which is not supported: use Box, Discrete, MultiDiscrete, "
        "MultiBinary, Dict or Tuple."
    )


def _at(index: Any, encode: Encoder) -> Encoder:
    return lambda obs: encode(obs[index])


def _one_hot(sizes: np.ndarray, starts: np.ndarray) -> Encoder:
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]) - starts
    total = int(sizes.sum())

    def encode(obs: Any) -> np.ndarray:
        encoded = np.zeros(total, dtype=np.float32)
        encoded[np.asarray(obs).reshape(-1) + offsets] = 1.0
        return encoded

    return encode


def _unit_box(size: int) -> spaces.Box:
    return spaces.Box(0.0, 1.0, (size,), dtype=np.float32)
