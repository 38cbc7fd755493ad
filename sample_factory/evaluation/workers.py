"""Plays the episodes of an evaluation, in this process or in several.

`campaign` calls `play`. Each worker makes some of the environments and a copy of the policy; what it reports
are finished episodes. A worker that dies is replaced and plays its episodes again, which changes nothing as
they are seeded.

Invariant: after `play`, however it ends, no worker process is left.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.config.config import Config
from sample_factory.envs.contract import EnvConfig, agents_of
from sample_factory.envs.make import make_env
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import EpisodeRecord, EvaluationRound, Programme
from sample_factory.evaluation.player import Player, load_player, random_player
from sample_factory.evaluation.recording import Recording
from sample_factory.evaluation.stage import Stage, env_seed
from sample_factory.evaluation.video import require_picture
from sample_factory.monitoring.log import init_worker_logging, logger
from sample_factory.processes.fork_server import start_fork_server, stop_fork_server
from sample_factory.processes.supervision import Death, Supervisor
from sample_factory.processes.worker import WorkerContext, WorkerSpec

POLL_SECONDS = 0.1
STOP_SECONDS = 10.0
MAX_DEATHS = 3
NOTHING_RECORDED = Recording()


@dataclass(frozen=True)
class Job:
    """An evaluation: who plays what.

    Attributes:
        cfg: complete, with the checkpoint named by `model_path`.
        programme: the episodes.
        recording: what to write down.
        render_mode: of the environments.
        max_frames: stop early after this many, in all processes together.
        action_repeat: environment steps per decision.
        random: a random policy plays instead.
    """

    cfg: Config
    programme: Programme
    recording: Recording = NOTHING_RECORDED
    render_mode: str | None = None
    max_frames: int = 1_000_000_000
    action_repeat: int = 1
    random: bool = False

    def make_env(self, env_index: int, worker: int = 0) -> Any:
        """The environment of an index."""
        return make_env(self.cfg.env, self.cfg, EnvConfig(worker, env_index, env_index), self.render_mode)

    def make_player(self, env: Any, worker: int = 0) -> Player:
        """The policy, with random numbers of its own in each process."""
        seed = env_seed(self.programme.seed, worker)
        if self.random:
            return random_player(env, seed)
        return load_player(self.cfg, env, seed)

    def open_stages(self, opened: ExitStack, worker: int = 0, num_workers: int = 1) -> dict[int, Stage]:
        """The stages of one of several workers, closed with `opened`."""
        stages = {}
        for env_index in self.programme.envs[worker::num_workers]:
            env = self.make_env(env_index, worker)
            opened.callback(env.close)
            frameskip = self.cfg.get("env_frameskip") or 1
            witness = self.recording.witness(self.programme, env_index, agents_of(env), frameskip)
            stages[env_index] = Stage(env, self.programme.seeds_of(env_index, env), witness)
        return stages


class Performance:
    """The share of one process in a job; `step` until it `is_over`."""

    def __init__(self, job: Job, worker: int = 0, num_workers: int = 1) -> None:
        self._opened = ExitStack()
        with ExitStack() as opened:
            stages = job.open_stages(opened, worker, num_workers)
            player = job.make_player(next(iter(stages.values())).env, worker)
            self._round = EvaluationRound(player, stages, job.programme, job.action_repeat)
            if job.recording.videos is not None:
                require_picture(next(iter(stages.values())), job.cfg.env)
            self._opened = opened.pop_all()
        self._max_frames = job.max_frames / num_workers

    @property
    def is_over(self) -> bool:
        """Whether all episodes have been played, or as many frames as there may be."""
        return self._round.is_over or self._round.frames >= self._max_frames

    def step(self) -> list[EpisodeRecord]:
        """One step of every environment; the episodes that ended."""
        return self._round.step()

    def close(self) -> None:
        """Closes the environments."""
        self._opened.close()


@dataclass(frozen=True)
class WorkerDone:
    """Report: a worker has played its share."""

    name: str


@dataclass(frozen=True)
class EvaluationWorkerBuilder:
    """Builds one evaluation worker where it runs."""

    job: Job
    user_code: UserCode
    worker: int
    num_workers: int

    def __call__(self, context: WorkerContext) -> EvaluationWorker:
        """See `Builder`."""
        torch.set_num_threads(1)
        self.user_code.restore()
        init_worker_logging(None, log_to_file=False, console=True)
        return EvaluationWorker(Performance(self.job, self.worker, self.num_workers), context)


class EvaluationWorker:
    """Plays, and reports each episode that ends."""

    def __init__(self, performance: Performance, context: WorkerContext) -> None:
        self._performance = performance
        self._context = context
        self._has_said_so = False

    def poll(self, timeout: float) -> None:
        """Plays on for a while; waits when everything has been played."""
        deadline = time.monotonic() + timeout
        while not self._performance.is_over and time.monotonic() < deadline:
            for episode in self._performance.step():
                self._context.reporter.send(episode)
        if not self._performance.is_over:
            return
        if not self._has_said_so:
            self._has_said_so = True
            self._context.reporter.send(WorkerDone(self._context.name))
        self._context.rest(timeout)

    def close(self) -> None:
        """Closes the environments."""
        self._performance.close()


def play(job: Job, num_workers: int = 1) -> list[EpisodeRecord]:
    """Plays a job's episodes; they come back by number, all of them unless `max_frames` was reached.

    Raises:
        EvaluationError: the policy can't be played, or workers keep dying.
    """
    num_workers = max(1, min(num_workers, len(job.programme.envs)))
    episodes = _play_here(job) if num_workers == 1 else _play_in_processes(job, num_workers)
    return sorted(episodes, key=lambda episode: episode.episode)


def _play_here(job: Job) -> list[EpisodeRecord]:
    performance = Performance(job)
    episodes: list[EpisodeRecord] = []
    try:
        while not performance.is_over:
            episodes += performance.step()
    finally:
        performance.close()
    return episodes


def _play_in_processes(job: Job, num_workers: int) -> list[EpisodeRecord]:
    start_fork_server(["sample_factory.evaluation.workers"])
    supervisor = Supervisor(max_workers=num_workers)
    busy = set()
    found: dict[int, EpisodeRecord] = {}
    try:
        for worker in range(num_workers):
            name = f"evaluation_worker_{worker}"
            busy.add(name)
            supervisor.start(_spec(job, name, worker, num_workers))
        while busy:
            for report in supervisor.reports(POLL_SECONDS):
                if isinstance(report, EpisodeRecord):
                    found[report.episode] = report  # a replaced worker plays some of them again
                elif isinstance(report, WorkerDone):
                    busy.discard(report.name)
            for death in supervisor.check():
                if death.name in busy:
                    _replace(supervisor, death)
    finally:
        supervisor.stop_all(STOP_SECONDS)
        stop_fork_server()
    return list(found.values())


def _spec(job: Job, name: str, worker: int, num_workers: int) -> WorkerSpec:
    return WorkerSpec(
        name=name,
        build=EvaluationWorkerBuilder(job, UserCode.capture(), worker, num_workers),
        silence_limit_sec=float(job.cfg.get("env_step_timeout_seconds") or 600),
        start_limit_sec=float(job.cfg.get("reset_timeout_seconds") or 120) * 5,
    )


def _replace(supervisor: Supervisor, death: Death) -> None:
    if death.deaths >= MAX_DEATHS or not death.started:
        is_ours = death.cause.startswith("sample_factory.")  # then what follows its name is a sentence
        raise EvaluationError(
            death.cause.partition(": ")[2] if is_ours else f"{death.name} failed: {death.cause}"
        )
    logger().warning("%s died (%s) and plays its episodes again.", death.name, death.cause)
    supervisor.restart(death.name, death.deaths)
