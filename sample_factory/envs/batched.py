"""Environments that step many copies in one call: what the engine asks of them, and an adapter.

`vector.BatchedVector` drives a `BatchedEnv`; families give one out through `EnvFamily.make_vector_env`, and
`as_batched` accepts gymnasium's vector environments too. EnvPool's adapter lives with its family.

Invariant: an episode's last step returns its final observation; the step after it ignores that copy's action,
returns the first observation of the next episode and is marked in `resets`. Where every end is a termination,
the last step may return the next episode's first observation instead: nobody values that final observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.contract import EXTRA_STATS, NUM_FRAMES, TRUE_REWARD
from sample_factory.envs.observations import BARE_KEY
from sample_factory.envs.spaces import UnsupportedSpaceError, check_action_space


class BatchedStep(NamedTuple):
    """One step of all copies."""

    obs: dict[str, np.ndarray]  # [n, ...] each
    rewards: np.ndarray  # float32 [n]
    terminated: np.ndarray  # bool [n]
    truncated: np.ndarray  # bool [n]; never together with `terminated`
    resets: np.ndarray  # bool [n]: first observation of a new episode, the action was ignored
    frames: np.ndarray  # int32 [n]; 0 where a copy was reset
    infos: list[
        tuple[int, dict[str, Any]]
    ]  # (index, info) of copies whose episode ended and has something to tell


@runtime_checkable
class BatchedEnv(Protocol):
    """`num_envs` copies of one environment; spaces are those of one copy."""

    num_envs: int
    observation_space: spaces.Dict
    action_space: spaces.Space[Any]

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        """Starts all copies anew; copy i is seeded with something that follows from `seed` and i."""

    def step(self, actions: np.ndarray) -> BatchedStep:
        """Steps all copies with actions `[n]` or `[n, k]`."""

    def close(self) -> None:
        """Releases the copies."""


class GymnasiumBatchedEnv:
    """Any `gymnasium.vector.VectorEnv` that resets its copies on the step after an episode's end."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode != gymnasium.vector.AutoresetMode.NEXT_STEP:
            raise ValueError(
                f"{type(env).__name__} has autoreset_mode={mode}, which does not keep final observations; "
                "make it with autoreset_mode=AutoresetMode.NEXT_STEP."
            )
        check_action_space(env.single_action_space, type(env).__name__)
        self.env = env
        self.num_envs = env.num_envs
        self._native_space = env.single_action_space
        self.action_space = _zero_based(env.single_action_space)
        self._obs = ObservationLayout(env.single_observation_space)
        self.observation_space = self._obs.space
        self._ended = np.zeros(self.num_envs, bool)

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        """See `BatchedEnv`."""
        obs, _ = self.env.reset(seed=seed)
        self._ended = np.zeros(self.num_envs, bool)
        return self._obs.arrays(obs)

    def step(self, actions: np.ndarray) -> BatchedStep:
        """See `BatchedEnv`."""
        obs, rewards, terminated, truncated, info = self.env.step(native_actions(actions, self._native_space))
        resets, self._ended = self._ended, terminated | truncated
        frames = np.array(info.get(NUM_FRAMES, np.ones(self.num_envs)), np.int32)
        frames[resets] = 0
        return BatchedStep(
            obs=self._obs.arrays(obs),
            rewards=np.asarray(rewards, np.float32),
            terminated=terminated,
            truncated=truncated & ~terminated,
            resets=resets,
            frames=frames,
            infos=[(i, _ending_info(info, i)) for i in np.flatnonzero(self._ended).tolist()],
        )

    def close(self) -> None:
        """See `BatchedEnv`."""
        self.env.close()


def as_batched(env: Any) -> BatchedEnv:
    """What a family's `make_vector_env` returned, as a `BatchedEnv`."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        return GymnasiumBatchedEnv(env)
    if isinstance(env, BatchedEnv):
        return env
    raise TypeError(
        f"make_vector_env returned {type(env).__name__}; return a gymnasium.vector.VectorEnv or a BatchedEnv."
    )


class FirstOfBatch(gymnasium.Env[Any, Any]):
    """A batch of one copy as an ordinary environment, for reading spaces and for evaluation."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, batch: BatchedEnv, render_mode: str | None = None) -> None:
        self.batch = batch
        self.render_mode = render_mode
        self.observation_space = batch.observation_space
        self.action_space = batch.action_space
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Takes the reset that follows an episode's end, or starts the copy anew."""
        super().reset(seed=seed)
        if self._ended and seed is None:
            obs = self.batch.step(np.asarray([self.action_space.sample()])).obs
        else:
            obs = self.batch.reset(int(self.np_random.integers(2**31 - 1)))
        self._ended = False
        return {key: value[0] for key, value in obs.items()}, {}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Steps the one copy."""
        step = self.batch.step(np.asarray([action]))
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        self._ended = terminated or truncated
        info = {NUM_FRAMES: int(step.frames[0]), **dict(step.infos).get(0, {})}
        return (
            {key: value[0] for key, value in step.obs.items()},
            float(step.rewards[0]),
            terminated,
            truncated,
            info,
        )

    def render(self) -> Any:
        """The batch's picture of its copy, where it has one."""
        render = getattr(self.batch, "render", None)
        return None if render is None or self.render_mode is None else render()

    def close(self) -> None:
        """Closes the batch."""
        self.batch.close()


class ObservationLayout:
    """Batches of arrays, of numbers, or of (nested) dicts of them, as one flat dict of arrays.

    Keys of nested dicts are joined by `/`; Discrete becomes one-hot, as `observations` has it.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._leaves = dict(_leaves(space, ""))
        self.space = spaces.Dict(
            {
                key: spaces.Box(0.0, 1.0, (size,), np.float32) if (size := _one_hot_size(leaf)) else leaf
                for key, leaf in self._leaves.items()
            }
        )

    def arrays(self, obs: Any) -> dict[str, np.ndarray]:
        """The arrays `[n, ...]` of one batch of observations."""
        found = _flat(obs, "") if isinstance(obs, Mapping) else {BARE_KEY: obs}
        return {key: _encoded(found[key], leaf) for key, leaf in self._leaves.items()}


def native_actions(actions: np.ndarray, space: spaces.Space[Any]) -> np.ndarray:
    """Actions `[n]` or `[n, k]` as policies choose them, in the type, shape and bounds of a space."""
    rows = np.asarray(actions).reshape(len(actions), *(space.shape or ()))
    if isinstance(space, spaces.Box):
        rows = np.clip(rows, space.low, space.high)
    elif isinstance(space, spaces.Discrete):
        rows = rows + int(space.start)  # policies count from 0
    return rows.astype(space.dtype, copy=False)


def _zero_based(space: spaces.Space[Any]) -> spaces.Space[Any]:
    return spaces.Discrete(int(space.n)) if isinstance(space, spaces.Discrete) else space


def _leaves(space: spaces.Space[Any], key: str) -> list[tuple[str, spaces.Space[Any]]]:
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
        return [leaf for name, part in parts for leaf in _leaves(part, f"{key}/{name}" if key else name)]
    if isinstance(space, spaces.Box | spaces.Discrete):
        return [(key or BARE_KEY, space)]
    raise UnsupportedSpaceError(
        f"A vectorised environment observes {space}, which is not supported: use Box, Discrete or Dict."
    )


def _flat(obs: Mapping[str, Any], key: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in obs.items():
        path = f"{key}/{name}" if key else name
        flat |= _flat(value, path) if isinstance(value, Mapping) else {path: value}
    return flat


def _one_hot_size(space: spaces.Space[Any]) -> int:
    return int(space.n) if isinstance(space, spaces.Discrete) else 0


def _encoded(batch: Any, space: spaces.Space[Any]) -> np.ndarray:
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[np.asarray(batch).reshape(-1) - int(space.start)]
    return np.asarray(batch)


def _ending_info(info: Mapping[str, Any], index: int) -> dict[str, Any]:
    return {
        key: _entry(info[key], index)
        for key in (TRUE_REWARD, EXTRA_STATS)
        if key in info and info.get(f"_{key}", np.ones(index + 1))[index]
    }


def _entry(values: Any, index: int) -> Any:
    """One copy's entry of gymnasium's batched info, in which a dict of numbers is a dict of arrays."""
    if isinstance(values, Mapping):
        return {
            key: _entry(value, index)
            for key, value in values.items()
            if not key.startswith("_") and values.get(f"_{key}", np.ones(index + 1))[index]
        }
    return values[index]
