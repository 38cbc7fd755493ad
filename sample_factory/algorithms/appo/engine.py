"""Two ways of running the same components: as processes, or in one loop.

The session sees one interface: `poll` moves the work along and yields what the components report.

Invariant: after `stop` no process of the engine is left, and every learner has had the chance to save.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sample_factory.algorithms.appo.board import Activity
from sample_factory.algorithms.appo.builders import LearnerBuilder, PolicyWorkerBuilder, RolloutWorkerBuilder
from sample_factory.algorithms.appo.league_keeper import LeagueKeeperBuilder
from sample_factory.algorithms.appo.messages import RepeatRequests, encode
from sample_factory.algorithms.appo.plan import (
    LEAGUE_KEEPER,
    learner_name,
    policy_worker_name,
    rollout_worker_name,
)
from sample_factory.algorithms.appo.serial_state import restore_serial_state, save_serial_state
from sample_factory.algorithms.appo.site import Site
from sample_factory.processes.affinity import available_cores, cores_for_worker
from sample_factory.processes.channels import LocalReporter
from sample_factory.processes.supervision import Death, Supervisor
from sample_factory.processes.worker import Builder, Component, WorkerContext, WorkerSpec, WorkerStarted

log = logging.getLogger("sample_factory")

MAX_NICENESS = 19
# What a component must have got done, for its next death to count as the first in a row again: a rollout
# worker many rollouts, or one and some work (steps of a slow environment alone are none); others any work.
MIN_ROLLOUTS = 10
MIN_SAMPLING_SEC = 1.0
MIN_COMPUTING_SEC = 0.1
# Without a sign of life for this long a learner or policy worker is stuck; to start, an SGD step or a save on
# a slow disk may take longer than an environment is allowed to.
MIN_SILENCE_LIMIT_SEC = 600.0
# For libraries that an environment loads; torch has its own setting in every worker.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class ComponentFailedError(RuntimeError):
    """A component failed in a way that ends the session; `trace` is where it happened."""

    def __init__(self, message: str, trace: str = ""):
        super().__init__(message)
        self.trace = trace


@dataclass(frozen=True)
class Trouble:
    """The deaths of one component since it last got anything done."""

    count: int
    first: Death
    seconds: float  # of work it had done by then
    rollouts: int  # it had handed over by then


class Engine(Protocol):
    """The running components of a session."""

    def start(self) -> None:
        """Brings all components to life."""

    def poll(self, timeout: float) -> Iterator[Any]:
        """Lets the components work; yields their reports; raises `ComponentFailedError`."""

    def ready(self) -> bool:
        """Whether every component has been built."""

    def stop(self, timeout: float) -> Iterator[Any]:
        """Ends sampling, then the learners, which save; yields the last reports."""


def builders(site: Site) -> dict[str, Builder]:
    """Every component of a session by name, in the order in which a serial session polls them."""
    plan = site.plan
    found: dict[str, Builder] = {}
    for worker_id in range(plan.num_workers):
        found[rollout_worker_name(worker_id)] = RolloutWorkerBuilder(site, worker_id)
    for actor_id in range(plan.num_actors):
        for index in range(plan.policy_workers_of(actor_id)):
            found[policy_worker_name(actor_id, index)] = PolicyWorkerBuilder(site, actor_id, index)
    for policy_id in range(plan.num_policies):
        found[learner_name(policy_id)] = LearnerBuilder(site, policy_id)
    if plan.num_seats:
        found[LEAGUE_KEEPER] = LeagueKeeperBuilder(site)
    return found


class SerialEngine:
    """All components in this process, polled in turn: repeatable, and a debugger works."""

    def __init__(self, site: Site):
        import torch

        self._site = site
        self._reporter = LocalReporter()
        torch.set_num_threads(site.cfg.learner_threads or 1)
        self.components: dict[str, Component] = {}

    def start(self) -> None:
        """See `Engine`."""
        for name, build in builders(self._site).items():
            self.components[name] = build(WorkerContext(name, self._reporter, beat=lambda: None))
        restore_serial_state(self._site, self.components)

    def poll(self, timeout: float) -> Iterator[Any]:
        """See `Engine`; one round over all components."""
        for component in self.components.values():
            component.poll(0.0)
        yield from self._reporter.drain()

    def ready(self) -> bool:
        """See `Engine`."""
        return bool(self.components)

    def stop(self, timeout: float) -> Iterator[Any]:
        """See `Engine`."""
        if self.components:
            save_serial_state(self._site, self.components)
        for component in self.components.values():
            component.close()
        self.components = {}
        yield from self._reporter.drain()


class ParallelEngine:
    """One process for each component, watched by a supervisor."""

    def __init__(self, site: Site, supervisor: Supervisor):
        self._site = site
        self._supervisor = supervisor
        self._builders = builders(site)
        self._troubles: dict[str, Trouble] = {}
        self._replaced_policy_workers: set[str] = set()

    def start(self) -> None:
        """See `Engine`."""
        # Learners first: everybody waits for the weights they publish.
        for name in sorted(self._builders, key=lambda name: not name.startswith("learner")):
            self._supervisor.start(self._spec(name))

    def _spec(self, name: str) -> WorkerSpec:
        cfg, plan = self._site.cfg, self._site.plan
        builder = self._builders[name]
        niceness, cores = cfg.default_niceness, None
        step_limit, start_limit = float(cfg.env_step_timeout_seconds), float(cfg.reset_timeout_seconds)
        if not isinstance(builder, RolloutWorkerBuilder):
            step_limit, start_limit = (max(sec, MIN_SILENCE_LIMIT_SEC) for sec in (step_limit, start_limit))
        if isinstance(builder, RolloutWorkerBuilder):
            niceness += 10
            if cfg.set_workers_cpu_affinity and plan.num_workers >= len(available_cores()):
                cores = cores_for_worker(builder.worker_id, plan.num_workers, available_cores())
        elif isinstance(builder, PolicyWorkerBuilder):
            niceness += 2
        return WorkerSpec(
            name=name,
            build=builder,
            cores=cores,
            niceness=min(niceness, MAX_NICENESS),
            silence_limit_sec=step_limit,
            silence_report_sec=float(cfg.heartbeat_reporting_interval),
            start_limit_sec=start_limit,
            environment=SINGLE_THREADED if cfg.force_envs_single_thread else {},
        )

    def poll(self, timeout: float) -> Iterator[Any]:
        """See `Engine`."""
        for report in self._supervisor.reports(timeout):
            if isinstance(report, WorkerStarted):
                self._after_start(report.name)
            yield report
        for death in self._supervisor.check():
            self._handle(death)

    def _handle(self, death: Death) -> None:
        """Replaces a worker that died, unless it can't work: it is set up wrongly, or makes no progress."""
        builder = self._builders[death.name]
        if not death.started and death.raised and death.deaths == 1:
            raise ComponentFailedError(f"{death.name} failed to start: {death.cause}", death.trace)
        if death.is_final:
            raise ComponentFailedError(f"{death.name} failed: {death.cause}", death.trace)
        if isinstance(builder, RolloutWorkerBuilder):
            whereabouts = self._site.whereabouts(builder.worker_id, death.deaths)
            death = replace(death, cause=f"{death.cause}; {whereabouts}")
        trouble = self._troubles[death.name] = self._note(death, builder)
        limit = self._site.cfg.max_worker_restarts
        if trouble.count > limit:
            raise ComponentFailedError(
                f"{death.name} failed: {trouble.first.cause} ({trouble.count} deaths in a row, "
                f"--max_worker_restarts={limit})",
                trouble.first.trace,
            )
        if isinstance(builder, RolloutWorkerBuilder):
            lost = self._site.forget_rollout_worker(builder.worker_id)
            log.warning("%d open trajectories of %s are dropped.", lost, death.name)
        elif isinstance(builder, PolicyWorkerBuilder):
            self._replaced_policy_workers.add(death.name)
        delay = self._supervisor.restart(death.name, trouble.count)
        log.warning("%s died (%s) and is replaced in %.1f s.", death.name, death.cause, delay)
        if death.trace:
            log.warning("%s", death.trace)

    def _note(self, death: Death, builder: Builder) -> Trouble:
        """Counts deaths in a row: since the component last got anything done."""
        board = self._site.board()
        activities = [Activity.ENVIRONMENT, Activity.INFERENCE, Activity.TRAINING]
        row = self._site.plan.component_names().index(death.name)
        seconds, rollouts = float(board.seconds[row, activities].sum()), 0
        samples = isinstance(builder, RolloutWorkerBuilder)
        if isinstance(builder, RolloutWorkerBuilder):
            rollouts = int(board.collected[builder.worker_id].max())
        before = self._troubles.get(death.name)
        if before is None or _is_progress(seconds - before.seconds, rollouts - before.rollouts, samples):
            return Trouble(1, death, seconds, rollouts)
        return Trouble(before.count + 1, before.first, seconds, rollouts)

    def _after_start(self, name: str) -> None:
        """A new policy worker has dropped the requests to its predecessor: rollout workers repeat them."""
        if name in self._replaced_policy_workers:
            self._replaced_policy_workers.discard(name)
            builder = self._builders[name]
            assert isinstance(builder, PolicyWorkerBuilder)
            for inbox in self._site.channels.rollout_workers:
                inbox.send([encode(RepeatRequests(builder.policy_id))])

    def ready(self) -> bool:
        """See `Engine`."""
        return self._supervisor.all_started()

    def stop(self, timeout: float) -> Iterator[Any]:
        """See `Engine`."""
        learners = [name for name, builder in self._builders.items() if isinstance(builder, LearnerBuilder)]
        samplers = [name for name in self._builders if name not in learners]
        try:
            # The learners are asked first: saving is what must not be lost when time is short.
            yield from self._supervisor.stop([*learners, *samplers], timeout)
        finally:
            self._supervisor.stop_all(timeout)


def _is_progress(seconds: float, rollouts: int, samples: bool) -> bool:
    if samples:
        return rollouts >= MIN_ROLLOUTS or (rollouts >= 1 and seconds >= MIN_SAMPLING_SEC)
    return seconds >= MIN_COMPUTING_SEC
