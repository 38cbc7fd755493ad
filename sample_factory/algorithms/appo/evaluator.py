"""Evaluates policies while they are trained, and keeps the checkpoint that did best.

A component of its own: it takes the newest checkpoint of a policy whenever enough frames lie between it and
the last one, plays it on the same seeded episodes as all before, and reports. It reads files and writes one,
the best checkpoint, and shares nothing else with training.

Invariant: the best checkpoint holds the very weights whose score its name tells.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.evaluation.evaluate import EpisodeRecord, EvaluationRound, Programme
from sample_factory.evaluation.player import TrainedPlayer, is_deterministic, load_model
from sample_factory.evaluation.stage import Stage
from sample_factory.model.checkpoints import (
    Checkpoint,
    CheckpointError,
    CheckpointFile,
    CheckpointStore,
    load_checkpoint,
)
from sample_factory.monitoring.reports import EvaluationReport
from sample_factory.monitoring.statistics import flatten_stats

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.processes.channels import Reporter

log = logging.getLogger("sample_factory")

LOOK_SEC = 1.0  # between looks for new checkpoints


class BestCheckpoints(CheckpointStore):
    """The best checkpoint of a directory whose other files belong to a learner."""

    def _remove_leftovers(self) -> None:
        """Leaves temporary files alone: the learner may be writing one right now."""

    def best_value(self, metric: str) -> float:
        """The value of the best checkpoint by this metric; minus infinity without one."""
        for file in reversed(self.best_checkpoints()):
            if f"_{metric}_" not in file.path.name:
                continue  # it was chosen by other numbers, which do not compare
            try:
                value = load_checkpoint(file.path).best_value
            except (CheckpointError, FileNotFoundError) as error:
                log.warning("The best checkpoint so far can't be read: %s", error)
                continue
            if value is not None:
                return float(value)
        return -np.inf


@dataclass
class _Evaluation:
    """A checkpoint that is being played."""

    policy_id: int
    checkpoint: Checkpoint
    round: EvaluationRound
    started: float
    episodes: list[EpisodeRecord]


class Evaluator:
    """Plays checkpoints as they appear.

    Args:
        cfg: of the session.
        directory: of the experiment.
        reporter: gets an `EvaluationReport` for each evaluation.
        look_sec: between looks for new checkpoints.
        rest: waits when there is nothing to play; see `WorkerContext`.
    """

    def __init__(
        self,
        cfg: Config,
        directory: Path,
        reporter: Reporter,
        *,
        look_sec: float = LOOK_SEC,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._cfg = cfg
        self._reporter = reporter
        self._rest = rest
        self._look_sec, self._clock = look_sec, clock
        self._metric = cfg.save_best_metric
        self._stores = [BestCheckpoints(directory / f"checkpoint_p{p}") for p in range(cfg.num_policies)]
        self._best = [store.best_value(self._best_name) for store in self._stores]
        # What an evaluator that died was playing is not played again: it may be what killed it.
        self._last = [self._turn(store.checkpoints()) for store in self._stores]
        self._next_look = 0.0
        self._opened = ExitStack()
        self._envs: list[Any] = []
        self._current: _Evaluation | None = None

    @property
    def _best_name(self) -> str:
        return f"eval_{self._metric.replace('/', '_')}"

    def poll(self, timeout: float) -> None:
        """Plays on for a while; waits when there is nothing to play."""
        if not self.work(timeout):
            self._rest(timeout)

    def work(self, seconds: float) -> bool:
        """Plays on for at most this long; whether there was anything to play."""
        deadline = self._clock() + seconds
        self._current = self._current or self._begin()
        if self._current is None:
            return False
        playing = self._current
        while not playing.round.is_over and self._clock() < deadline:
            playing.episodes += playing.round.step()
        if playing.round.is_over:
            self._current = None
            self._finish(playing)
        return True

    def close(self) -> None:
        """Closes the environments; an evaluation that has not ended is forgotten."""
        self._opened.close()

    def _begin(self) -> _Evaluation | None:
        now = self._clock()
        if now < self._next_look:
            return None
        self._next_look = now + self._look_sec
        for policy_id, store in enumerate(self._stores):
            files = store.checkpoints()
            # Another turn, not a later one: training may have been turned back to an earlier checkpoint.
            if self._turn(files) in (0, self._last[policy_id]):
                continue
            try:
                checkpoint = load_checkpoint(files[-1].path)
            except FileNotFoundError:  # deleted a moment ago, because there are newer ones
                continue
            self._last[policy_id] = self._turn(files)
            return _Evaluation(policy_id, checkpoint, self._round_for(checkpoint), now, [])
        return None

    def _turn(self, files: list[CheckpointFile]) -> int:
        """How many evaluations were due by the newest of some checkpoints."""
        return files[-1].env_steps // self._cfg.eval_every_env_steps if files else 0

    def _round_for(self, checkpoint: Checkpoint) -> EvaluationRound:
        cfg = self._cfg
        seed = cfg.eval_seed or 0
        programme = Programme(cfg.eval_env_episodes, cfg.eval_num_envs, seed)
        if not self._envs:
            self._envs = [self._open(env_index) for env_index in programme.envs]
        env = self._envs[0]
        model = load_model(cfg, checkpoint, observation_dict_space(env), env.action_space)
        player = TrainedPlayer(model, deterministic=is_deterministic(cfg, env.action_space), seed=seed)
        stages = {i: Stage(env, programme.seeds_of(i, env)) for i, env in enumerate(self._envs)}
        return EvaluationRound(player, stages, programme)

    def _open(self, env_index: int) -> Any:
        # Numbers beyond those of the rollout workers: environments may use them for ports and files.
        env_id = self._cfg.num_workers * self._cfg.num_envs_per_worker + env_index
        env = make_env(self._cfg.env, self._cfg, EnvConfig(self._cfg.num_workers, env_index, env_id))
        self._opened.callback(env.close)
        return env

    def _finish(self, done: _Evaluation) -> None:
        checkpoint = done.checkpoint
        scalars = episode_means(done.episodes)
        self._keep_if_best(done.policy_id, checkpoint, scalars)
        self._reporter.send(
            EvaluationReport(
                policy_id=done.policy_id,
                policy_version=checkpoint.policy_version,
                env_steps=checkpoint.env_steps,
                scalars=scalars | {"seconds": self._clock() - done.started},
            )
        )

    def _keep_if_best(self, policy_id: int, checkpoint: Checkpoint, scalars: dict[str, float]) -> None:
        value = scalars.get(self._metric)
        if value is None:
            log.warning(
                "Evaluation knows no %s, so there is no best checkpoint; use --save_best_metric=reward.",
                self._metric,
            )
            return
        if checkpoint.env_steps < self._cfg.save_best_after or not value > self._best[policy_id]:
            return
        try:
            self._stores[policy_id].save_best(
                checkpoint.state | {"best_performance": value},
                policy_version=checkpoint.policy_version,
                env_steps=checkpoint.env_steps,
                metric=self._best_name,
                value=value,
            )
        except CheckpointError as error:
            log.error("%s Training goes on.", error)
            return
        self._best[policy_id] = value


def episode_means(episodes: list[EpisodeRecord]) -> dict[str, float]:
    """Means over episodes by the names of training's statistics, and the spread of rewards."""
    rewards = [episode.reward for episode in episodes]
    columns: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in flatten_stats(episode.extra).items():
            columns.setdefault(name, []).append(value)
    columns["reward"] = rewards
    columns["true_reward"] = [episode.true_reward for episode in episodes]
    columns["len"] = [float(episode.length) for episode in episodes]
    means = {name: float(np.mean(values)) for name, values in columns.items()}
    return means | {
        "reward_std": float(np.std(rewards)),
        "reward_min": min(rewards),
        "reward_max": max(rewards),
        "episodes": float(len(episodes)),
    }
