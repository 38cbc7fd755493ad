"""Fills the level cache ahead of training: `python -m sample_factory.envs.dmlab.dmlab_populate_cache`.

Takes the flags of the dummy sampler and of the family. `--sample_env_frames` says for how many frames of
training on DMLab-30 the cache shall suffice, 15e9 when it is not typed. Worker processes compile layouts
until each level has its number; started again after an interruption, it goes on where it stopped.

Invariant: the cache's files are the only record of progress.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import TYPE_CHECKING

import numpy as np

from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.dmlab.family import dmlab_options, level_cache
from sample_factory.envs.dmlab.level_cache import LevelCache, new_seed
from sample_factory.envs.dmlab.levels import EnvSpec, env_spec, known_level
from sample_factory.envs.dmlab.simulator import require_deepmind_lab
from sample_factory.envs.registry import MissingPackageError
from sample_factory.monitoring.log import init_logging, init_worker_logging, logger

if TYPE_CHECKING:
    from sample_factory.config.config import Config

TRAINING_FRAMES = 15_000_000_000
MIN_FREE_BYTES = 3 * 1024**3
REPORT_SEC = 30.0
DISK_IS_FULL = 3  # exit code of a worker

_log = logger()  # not by __name__, which is __main__ in a script


@dataclass(frozen=True)
class Target:
    """How many layouts of a level the cache shall hold."""

    level_path: str
    count: int


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 when the cache holds enough of every level, else 1."""
    typed = list(sys.argv[1:] if argv is None else argv)
    cfg = parse_args(["--env=dmlab_level_cache", *typed, "--algo=DUMMY_SAMPLER"])
    init_logging(experiment_dir=None, log_to_file=False)
    if not cfg.dmlab_use_level_cache:
        _log.error("There is no cache to fill with --dmlab_use_level_cache=False; use True.")
        return 1
    try:
        require_deepmind_lab()
    except MissingPackageError as error:
        _log.error("%s", error)
        return 1
    frames = cfg.cli_args.get("sample_env_frames") or TRAINING_FRAMES
    targets = targets_for(env_spec(cfg.env), frames)
    if not targets:
        _log.error("--env=%s has no level that is generated; use --env=dmlab_level_cache.", cfg.env)
        return 1
    return Population(cfg, targets).run(cfg.cli_args.get("timeout_seconds"))


def targets_for(spec: EnvSpec, frames: int) -> list[Target]:
    """The layouts that training on all of DMLab-30 for so many frames plays, of each generated level."""
    targets = []
    for level_path in spec.levels:
        level = known_level(level_path)
        if level is not None and level.episodes_per_billion:
            targets.append(Target(level_path, math.ceil(level.episodes_per_billion * frames / 1e9)))
    return targets


def share_of(worker_index: int, num_workers: int, targets: Sequence[Target]) -> list[Target]:
    """The levels one worker compiles: one each where there are enough workers, else several in turn."""
    if num_workers >= len(targets):
        return [targets[worker_index % len(targets)]]
    return list(targets[worker_index::num_workers])


class Population:
    """The worker processes that fill a cache, and how far they have come."""

    def __init__(self, cfg: Config, targets: Sequence[Target]) -> None:
        self._cfg = cfg
        self._targets = list(targets)
        self._context: SpawnContext = multiprocessing.get_context("spawn")
        self._cache = level_cache(cfg)
        self._workers: dict[int, SpawnProcess] = {}
        self._count_at_start: dict[int, int] = {}

    def run(self, timeout_sec: float | None) -> int:
        """Works until every level has its number, no worker can go on, or time is up."""
        deadline = math.inf if timeout_sec is None else time.monotonic() + timeout_sec
        try:
            for worker_index in range(self._cfg.num_workers):
                self._start(worker_index)
            while self._workers and time.monotonic() < deadline:
                wait_sec = min(REPORT_SEC, max(0.0, deadline - time.monotonic()))
                wait([worker.sentinel for worker in self._workers.values()], wait_sec)
                self._reap()
                self._report()
        except KeyboardInterrupt:
            _log.info("Interrupted; what is compiled is kept, and the same command goes on from there.")
        finally:
            for worker in self._workers.values():
                worker.terminate()
                worker.join()
        return 0 if self._num_missing() == 0 else 1

    def _start(self, worker_index: int) -> None:
        share = share_of(worker_index, self._cfg.num_workers, self._targets)
        worker = self._context.Process(
            target=fill_cache, args=(self._cfg, worker_index, share, os.getpid()), daemon=True
        )
        self._count_at_start[worker_index] = self._count(share)
        worker.start()
        self._workers[worker_index] = worker

    def _reap(self) -> None:
        """Starts a crashed worker again as long as it got anything done; compilers of levels do crash."""
        for worker_index, worker in list(self._workers.items()):
            if worker.exitcode is None:
                continue
            del self._workers[worker_index]
            if worker.exitcode in (0, DISK_IS_FULL):
                continue
            share = share_of(worker_index, self._cfg.num_workers, self._targets)
            if self._count(share) > self._count_at_start[worker_index]:
                _log.warning("Worker %d died (exit code %d); again.", worker_index, worker.exitcode)
                self._start(worker_index)
            else:
                _log.error("Worker %d died (exit code %d); giving up on it.", worker_index, worker.exitcode)

    def _count(self, targets: Sequence[Target]) -> int:
        return sum(min(target.count, len(cached_seeds(self._cache, target))) for target in targets)

    def _num_missing(self) -> int:
        return sum(target.count for target in self._targets) - self._count(self._targets)

    def _report(self) -> None:
        total = sum(target.count for target in self._targets)
        _log.info("%d of %d layouts are in %s.", total - self._num_missing(), total, self._cache.folder)


def fill_cache(cfg: Config, worker_index: int, targets: Sequence[Target], parent_pid: int) -> None:
    """Body of a worker process: compiles layouts of its levels, one level after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    init_worker_logging(experiment_dir=None, log_to_file=False)
    for target in targets:
        fill_level(cfg, worker_index, target, parent_pid)


def fill_level(cfg: Config, worker_index: int, target: Target, parent_pid: int) -> None:
    """Compiles layouts of one level until the cache, which others fill too, holds enough."""
    from sample_factory.envs.dmlab.env import LAB_SEED, DmlabEnv

    cache = level_cache(cfg)
    place = EnvConfig(worker_index, vector_index=0, env_id=worker_index)
    env = DmlabEnv(dmlab_options(EnvSpec(cfg.env, (target.level_path,)), cfg, place), cache)
    reader = cache.cached_seeds(target.level_path)
    known = np.unique(reader.new_seeds())
    while len(known) < target.count and os.getppid() == parent_pid:
        _stop_when_disk_is_full(cache)
        env.reset(options={LAB_SEED: new_seed(env.np_random, known)})
        env.step(int(env.action_space.sample()))
        if not env.asked_for_cached_level:
            _log.warning("Level %s was not generated; leaving it out.", target.level_path)
            break
        known = np.union1d(known, reader.new_seeds())
    env.close()


def cached_seeds(cache: LevelCache, target: Target) -> np.ndarray:
    """The different seeds of a level that the cache holds."""
    return np.unique(cache.cached_seeds(target.level_path).new_seeds())


def _stop_when_disk_is_full(cache: LevelCache) -> None:
    cache.folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(cache.folder).free < MIN_FREE_BYTES:
        _log.error(
            "Less than 3 GB are free at --dmlab_level_cache_path=%s; make room or choose another folder.",
            cache.folder,
        )
        sys.exit(DISK_IS_FULL)


if __name__ == "__main__":
    sys.exit(main())
