"""One EnvPool: copies of a task that C++ threads step together.

The EnvPool family makes it, `vector.BatchedVector` drives it.
Invariants: as `BatchedEnv` has them, which is how EnvPool resets by itself; for Atari `true_reward` is the
score of a whole game, whatever `episodic_life` and `reward_clip` make of episodes and rewards.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, field
from typing import Any

import envpool
import numpy as np

from sample_factory.envs.batched import BatchedStep, ObservationLayout, native_actions
from sample_factory.envs.contract import EXTRA_STATS, TRUE_REWARD


@dataclass(frozen=True)
class PoolOptions:
    """What to make a pool of."""

    task_id: str
    num_envs: int
    num_threads: int = 1
    frames_per_step: int = 1
    kwargs: dict[str, Any] = field(default_factory=dict)
    render_mode: str | None = None
    litters: bool = False  # the simulator writes files where it is started


class EnvPoolBatchedEnv:
    """EnvPool as a `BatchedEnv`; a pool takes its seed when it is made, so `reset` makes a new one."""

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self.num_envs = options.num_envs
        spec = envpool.make_spec(options.task_id, **options.kwargs)
        self.action_space = self._native_space = spec.gymnasium_action_space
        self._obs = ObservationLayout(spec.gymnasium_observation_space)
        self.observation_space = self._obs.space
        self._frames = np.full(self.num_envs, options.frames_per_step, np.int32)
        self._scores = GameScores(self.num_envs)
        self._ended = np.zeros(self.num_envs, bool)
        self._pool: Any = None
        self._directory = contextlib.ExitStack()

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        """See `BatchedEnv`."""
        self.close()
        with self._somewhere_else():
            return self._start(seed)

    def _start(self, seed: int) -> dict[str, np.ndarray]:
        render = {} if self.options.render_mode is None else {"render_mode": self.options.render_mode}
        self._pool = envpool.make(
            self.options.task_id,
            env_type="gymnasium",
            num_envs=self.num_envs,
            num_threads=self.options.num_threads,
            seed=seed % (2**31 - self.num_envs),
            **render,
            **self.options.kwargs,
        )
        self._scores = GameScores(self.num_envs)
        self._ended = np.zeros(self.num_envs, bool)
        obs, _ = self._pool.reset()
        return self._obs.arrays(obs)

    def _somewhere_else(self) -> contextlib.AbstractContextManager[Any]:
        """A working directory that goes with the pool, for simulators that leave files in it."""
        if not self.options.litters:
            return contextlib.nullcontext()
        return contextlib.chdir(
            self._directory.enter_context(
                tempfile.TemporaryDirectory(prefix="envpool_", ignore_cleanup_errors=True)
            )
        )

    def step(self, actions: np.ndarray) -> BatchedStep:
        """See `BatchedEnv`."""
        obs, rewards, terminated, truncated, info = self._pool.step(
            native_actions(actions, self._native_space)
        )
        truncated = truncated & ~terminated
        resets, self._ended = self._ended, terminated | truncated
        return BatchedStep(
            obs=self._obs.arrays(obs),
            rewards=np.asarray(rewards, np.float32),
            terminated=terminated,
            truncated=truncated,
            resets=resets,
            frames=np.where(resets, 0, self._frames),
            infos=self._scores.ended(self._ended, truncated, info) if "lives" in info else [],
        )

    def render(self) -> np.ndarray | None:
        """The picture of the first copy; None when EnvPool shows it in a window of its own."""
        pictures = self._pool.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """See `BatchedEnv`."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
            self._directory.close()


class GameScores:
    """Scores of Atari games over all lives, from the raw rewards EnvPool puts into `info`."""

    def __init__(self, num_envs: int) -> None:
        self._running = np.zeros(num_envs)
        self._finished = np.full(num_envs, np.nan)

    def ended(
        self, ended: np.ndarray, truncated: np.ndarray, info: dict[str, Any]
    ) -> list[tuple[int, dict[str, Any]]]:
        """Counts one step; what to tell of the episodes that ended on it.

        The end of a life repeats the score of the last finished game, as the Atari family does.
        """
        self._running += info["reward"]
        game_over = ended & (truncated | (info["terminated"] != 0))
        self._finished[game_over] = self._running[game_over]
        told = []
        for i in np.flatnonzero(ended).tolist():
            score = float(self._running[i] if np.isnan(self._finished[i]) else self._finished[i])
            tale: dict[str, Any] = {TRUE_REWARD: score}
            if game_over[i]:
                tale[EXTRA_STATS] = {"game_score": score}
            told.append((i, tale))
        self._running[game_over] = 0.0
        return told
