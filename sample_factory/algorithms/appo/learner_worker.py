"""The learner as a component: batcher and learner together, publishing weights and saving checkpoints.

Invariant: what is published and what is saved is always the learner's state between two SGD steps.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import torch
from torch import Tensor

from sample_factory.algorithms.appo.batcher import Batch, Batcher
from sample_factory.algorithms.appo.board import Activity, Board, Lag, Stopwatch
from sample_factory.algorithms.appo.learner import IterationResult, Learner
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.algorithms.appo.population import hyper_parameters_path
from sample_factory.algorithms.appo.saving import BackgroundSaver
from sample_factory.algorithms.appo.weights import WeightStore
from sample_factory.config.config import Config
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.reports import TrainReport
from sample_factory.monitoring.summaries import train_summary_due
from sample_factory.processes.channels import Reporter

log = logging.getLogger("sample_factory")

BEST_IMPROVEMENT = 1e-3


def checkpoint_store(cfg: Config, directory: Path, policy_id: int) -> CheckpointStore:
    """Where one policy's checkpoints are."""
    return CheckpointStore(directory / f"checkpoint_p{policy_id}", keep=cfg.keep_checkpoints)


@dataclass(frozen=True)
class LearnerLinks:
    """What a learner shares with the others."""

    board: Board
    weights: WeightStore
    reporter: Reporter
    beat: Callable[[], None]
    stopwatch: Stopwatch
    directory: Path


class LearnerWorker:
    """Takes batches, trains, publishes, saves."""

    def __init__(
        self, learner: Learner, batcher: Batcher, links: LearnerLinks, plan: Plan, is_restart: bool = False
    ):
        self.learner = learner
        self.batcher = batcher
        self._links = links
        self._plan = plan
        self._cfg = learner.cfg
        self._board = links.board
        self._watch = links.stopwatch
        self._checkpoints = checkpoint_store(self._cfg, links.directory, learner.policy_id)
        self._tensors = {name: t.detach().cpu() for name, t in learner.model.state_dict().items()}
        self._arrays = _as_arrays(self._tensors)
        self._best = -math.inf
        self.iterations = 0  # of this run; continues over a bit-exact resume
        now = time.monotonic()
        self._last_save = self._last_best_check = self._last_milestone = now
        self._last_summary = -math.inf
        self._saved_version = -1
        self._saver = BackgroundSaver(at_once=self._cfg.serial_mode)
        self._has_tried_to_save = False
        self._cfg_number = 0
        self._load()
        if is_restart:
            self._take_over()
        self._publish()
        self._note_counters()
        self._board.paused[learner.policy_id] = False

    def _load(self) -> None:
        best = self._cfg.load_checkpoint_kind == "best"
        checkpoint = self._checkpoints.load_best() if best else self._checkpoints.load_latest()
        if checkpoint is None:
            log.info("Policy %d starts from scratch.", self.learner.policy_id)
            return
        self.learner.load_state_dict(checkpoint.state)
        self._best = float(checkpoint.state.get("best_performance", -math.inf))
        self._saved_version = self.learner.policy_version
        log.info(
            "Policy %d resumes at version %d with %d frames.",
            self.learner.policy_id,
            self.learner.policy_version,
            self.learner.env_steps,
        )

    def _take_over(self) -> None:
        """Continues for a learner that died: what it published last, what was ready for it, and its place."""
        self._catch_up()
        self.batcher.recover()
        self.iterations = int(self._board.iterations[self.learner.policy_id])
        per_iteration = self._plan.trajectories_per_iteration
        if not per_iteration or len(self.batcher) >= self._slots_per_batch():
            return
        if bool((self._board.collected // per_iteration > self.iterations).all()):
            # In turns, everybody waits for an iteration whose batch died with the learner: call it finished.
            self.iterations += 1
            self._board.iterations[self.learner.policy_id] = self.iterations

    def _catch_up(self) -> None:
        """Weights and counters outlive their learner in shared memory, so no published SGD step is lost."""
        learner, policy_id = self.learner, self.learner.policy_id
        if self._links.weights.version <= learner.policy_version:
            return
        weights = {name: torch.empty_like(tensor) for name, tensor in self._tensors.items()}
        version = self._links.weights.load(_as_arrays(weights))
        moments = self._links.weights.empty_moments()
        self._links.weights.load_moments(moments)
        log.info("Policy %d goes on from version %d, published by its last learner.", policy_id, version)
        learner.catch_up(weights, {name: torch.from_numpy(m) for name, m in moments.items()}, version)
        learner.env_steps = max(learner.env_steps, int(self._board.env_steps[policy_id]))
        learner.samples = max(learner.samples, int(self._board.samples[policy_id]))
        self._start_saving()  # or learners that die sooner than saving is due would never save

    def poll(self, timeout: float) -> None:
        """Trains on one batch if there is one; waits for trajectories otherwise."""
        learner, batcher = self.learner, self.batcher
        self._follow_population()
        self._watch.switch(Activity.WAITING)
        batcher.receive(0.0 if len(batcher) >= self._slots_per_batch() else timeout)
        self._watch.switch(Activity.BATCHING)
        if not self._plan.trajectories_per_iteration:  # in turns, everybody waits for exactly these
            batcher.discard_older_than(learner.policy_version - self._cfg.max_policy_lag + 1)
        batch = batcher.take(self._slots_per_batch(), final_apart=not self._cfg.with_vtrace)
        self._update_pause(training=batch is not None)
        if batch is not None:
            self._watch.switch(Activity.TRAINING)
            self._train(batch)
            self._update_pause(training=False)
        self._watch.switch(Activity.OTHER)
        self._save_if_due()

    def _follow_population(self) -> None:
        """Does what population-based training has asked for on the board."""
        board, policy_id = self._board, self.learner.policy_id
        if board.save_requests[policy_id] > board.saves_done[policy_id]:
            number = int(board.save_requests[policy_id])
            self.save()
            board.saves_done[policy_id] = number
        if board.load_requests[policy_id] > board.loads_done[policy_id]:
            number = int(board.load_requests[policy_id])
            self._take_over_weights(int(board.load_from[policy_id]))
            board.loads_done[policy_id] = number
        if board.cfg_number[policy_id] > self._cfg_number:
            self._cfg_number = int(board.cfg_number[policy_id])
            path = hyper_parameters_path(self._links.directory, policy_id)
            self.learner.set_hyper_parameters(json.loads(path.read_text()))

    def _take_over_weights(self, donor: int) -> None:
        checkpoint = checkpoint_store(self._cfg, self._links.directory, donor).load_latest()
        if checkpoint is None:
            log.error(
                "Policy %d can't become policy %d, which has saved nothing.", self.learner.policy_id, donor
            )
            return
        self.learner.take_weights(checkpoint.state)
        self._publish()
        self.save()

    def _slots_per_batch(self) -> int:
        return int(self._cfg.batch_size * self._cfg.num_batches_per_iteration // self._cfg.rollout)

    def _update_pause(self, training: bool) -> None:
        """Stops new trajectories while more are ready than the backlog allows."""
        policy_id = self.learner.policy_id
        limit = self._plan.backlog_slots + (0 if training else self._slots_per_batch())
        pause = bool(self._cfg.async_rl) and len(self.batcher) >= limit
        resumed = self._board.paused[policy_id] and not pause
        self._board.paused[policy_id] = pause
        if resumed:
            self.batcher.wake_waiting_workers()

    def _train(self, batch: Batch) -> None:
        learner = self.learner
        version = learner.policy_version
        due = train_summary_due(version, time.monotonic() - self._last_summary)
        if self._cfg.sampler_only:
            result = learner.count(batch)
        else:
            result = learner.train(batch, self._after_step, with_statistics=due)
        self.iterations += 1
        self._note_counters()
        self._note_lag(result)
        self._board.iterations[learner.policy_id] = self.iterations
        self.batcher.wake_waiting_workers()
        if due:
            self._last_summary = time.monotonic()
            self._report(result)

    def _after_step(self) -> None:
        self._links.beat()
        self._publish()
        if self._saved_version < 0 and not self._has_tried_to_save:
            self._has_tried_to_save = True  # a run that dies early still has something to resume from
            self._start_saving()

    def _publish(self) -> None:
        if self.learner.device.type != "cpu":  # else this is the network's own memory
            for name, tensor in self.learner.model.state_dict().items():
                self._tensors[name].copy_(tensor)
        moments = {name: tensor.cpu().numpy() for name, tensor in self.learner.moments().items()}
        self._links.weights.publish(self._arrays, self.learner.policy_version, moments)

    def _note_counters(self) -> None:
        policy_id = self.learner.policy_id
        self._board.env_steps[policy_id] = self.learner.env_steps
        self._board.samples[policy_id] = self.learner.samples

    def _note_lag(self, result: IterationResult) -> None:
        if len(result.lags):
            lag = self._board.lag[self.learner.policy_id]
            lag[Lag.MIN], lag[Lag.AVG], lag[Lag.MAX] = (
                result.lags.min(),
                result.lags.mean(),
                result.lags.max(),
            )

    def _report(self, result: IterationResult) -> None:
        learner = self.learner
        scalars = dict(result.scalars)
        if len(result.lags):
            scalars["version_diff_min"] = float(result.lags.min())
            scalars["version_diff_avg"] = float(result.lags.mean())
            scalars["version_diff_max"] = float(result.lags.max())
        consumed = self.iterations * self._slots_per_batch()
        scalars["discarded_rollouts"] = float(self.batcher.discarded)
        scalars["discarding_rate"] = self.batcher.discarded / max(1, consumed + self.batcher.discarded)
        scalars["memory_learner"] = psutil.Process().memory_info().rss / 2**20
        self._links.reporter.send(
            TrainReport(
                policy_id=learner.policy_id,
                policy_version=learner.policy_version,
                env_steps=learner.env_steps,
                scalars=scalars,
                lag_histogram=result.lag_histogram(),
            )
        )

    def _save_if_due(self) -> None:
        self._collect_saves()
        now = time.monotonic()
        if now - self._last_save >= self._cfg.save_every_sec and self._saver.under_way == 0:
            self._start_saving()
        if now - self._last_best_check >= self._cfg.save_best_every_sec and self._saver.under_way <= 1:
            self._last_best_check = now
            self._save_if_best()

    def save(self) -> None:
        """Writes a checkpoint and waits until it is on the disk; a failing disk is reported, not fatal."""
        self._start_saving()
        self._collect_saves(wait=True)

    def _start_saving(self) -> None:
        """Writes a checkpoint, and a milestone when one is due, while training goes on."""
        learner, cfg = self.learner, self._cfg
        now = self._last_save = time.monotonic()
        version, env_steps = learner.policy_version, learner.env_steps
        if version == self._saved_version:
            return
        milestone = cfg.save_milestones_sec > 0 and now - self._last_milestone >= cfg.save_milestones_sec
        state = copy.deepcopy(self._state())

        def write() -> None:
            path = self._checkpoints.save(state, policy_version=version, env_steps=env_steps)
            if milestone:
                self._checkpoints.save_milestone(path)

        def note() -> None:
            self._saved_version = version
            if milestone:
                self._last_milestone = now

        self._saver.hand_over(write, on_success=note)

    def _collect_saves(self, wait: bool = False) -> None:
        for error in self._saver.collect(all_of_them=wait):
            log.error("%s Training goes on; saving is tried again in %d s.", error, self._cfg.save_every_sec)

    def _save_if_best(self) -> None:
        learner, cfg = self.learner, self._cfg
        value = float(self._board.best_metric[learner.policy_id])
        if learner.env_steps < cfg.save_best_after or not value > self._best + BEST_IMPROVEMENT:
            return
        self._best = value
        write = partial(
            self._checkpoints.save_best,
            copy.deepcopy(self._state()),
            policy_version=learner.policy_version,
            env_steps=learner.env_steps,
            metric=cfg.save_best_metric,
            value=value,
        )
        self._saver.hand_over(write, on_success=lambda: None)

    def _state(self) -> dict[str, object]:
        return self.learner.state_dict() | {"best_performance": self._best}

    def close(self) -> None:
        """Saves what has been learned since the last checkpoint.

        Raises:
            CheckpointError: that is not possible, so the session must not pass for complete.
        """
        self.save()
        self._saver.close()
        if self._saved_version != self.learner.policy_version and self._saver.error is not None:
            raise self._saver.error


def _as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
