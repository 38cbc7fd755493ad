"""A session: one training run of one experiment, from the first process to the last.

The main loop fits on a screen (`Session._loop`): let the components work and take their reports; show and
write progress; stop when told, when done, or when a component can't be saved.

Invariant: however a session ends, its processes are gone, its learners have had the chance to save, and the
exit status says what happened.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_factory.algorithms.appo.autotune import autotune
from sample_factory.algorithms.appo.autotune_report import command_to_reuse
from sample_factory.algorithms.appo.engine import ComponentFailedError, Engine, ParallelEngine, SerialEngine
from sample_factory.algorithms.appo.exits import ExitStatus, Signals, catch_signals
from sample_factory.algorithms.appo.first_look import probe_environment
from sample_factory.algorithms.appo.league import League, check_league
from sample_factory.algorithms.appo.plan import Plan, SeedOf
from sample_factory.algorithms.appo.population import Population
from sample_factory.algorithms.appo.postmortem import post_mortem
from sample_factory.algorithms.appo.preflight import check_machine
from sample_factory.algorithms.appo.progress import Progress
from sample_factory.algorithms.appo.side_evaluation import SideEvaluation
from sample_factory.algorithms.appo.site import Site
from sample_factory.algorithms.appo.steering import Steering
from sample_factory.benchmark.run_record import RunRecord, RunStatus, begin_training
from sample_factory.config.config import Config
from sample_factory.config.experiment_files import (
    cfg_path,
    prepare_experiment_dir,
    read_cfg_file,
    save_cfg,
    save_git_diff,
)
from sample_factory.config.precedence import resolve
from sample_factory.config.validation import check, warnings
from sample_factory.envs.extra_summaries import ExtraSummaries, NoExtraSummaries
from sample_factory.envs.registry import family_for
from sample_factory.monitoring.console import wants_live_display
from sample_factory.monitoring.log import init_logging
from sample_factory.monitoring.wandb_run import new_unique_id
from sample_factory.processes.directory_lock import DirectoryLock
from sample_factory.processes.fork_server import start_fork_server, stop_fork_server
from sample_factory.processes.supervision import Supervisor
from sample_factory.processes.worker import WorkerFailed

if TYPE_CHECKING:
    from sample_factory.algorithms.appo.probe import Probe

log = logging.getLogger("sample_factory")

DONE_FILE = "done"
POLL_SECONDS = 0.05
BENCHMARK_FRAMES = 2_000_000
BENCHMARK_SAMPLES = 1_000_000
PRELOAD = ("sample_factory.algorithms.appo.preload",)


RUN_STATUS = {
    ExitStatus.SUCCESS: RunStatus.COMPLETED,
    ExitStatus.FAILURE: RunStatus.FAILED,
    ExitStatus.INTERRUPTED: RunStatus.INTERRUPTED,
    ExitStatus.REQUEUE: RunStatus.INTERRUPTED,
}


def run_session(cfg: Config) -> ExitStatus:
    """Trains as `cfg` says; problems a user can mend are raised as `ConfigError` before anything starts."""
    with catch_signals() as signals, fork_server(cfg):
        cfg = resolve(cfg)
        check(cfg)
        if cfg.autotune == "only":
            return show_fast_settings(cfg, signals)
        directory = prepare_experiment_dir(cfg)
        with DirectoryLock(directory, "--experiment"):
            init_logging(directory, cfg.log_to_file)
            for warning in warnings(cfg):
                log.warning("%s", warning)
            if is_complete(cfg, directory):
                return ExitStatus.SUCCESS
            if cfg.with_wandb and not cfg.get("wandb_unique_id"):
                cfg.wandb_unique_id = new_unique_id(cfg.experiment)
            if cfg.autotune == "on":
                cfg = with_fast_settings(cfg, signals)
                if signals.status is not None:
                    return signals.status
            save_cfg(cfg)
            save_git_diff(cfg)
            return Session(cfg, directory, signals).run()


def show_fast_settings(cfg: Config, signals: Signals) -> ExitStatus:
    """Looks for fast settings, logs them, and leaves no experiment behind."""
    init_logging(None, log_to_file=False)
    tuned = autotune(cfg, probe_environment(cfg), frozenset(cfg.cli_args), lambda: signals.status is not None)
    if signals.status is not None:
        return signals.status
    sys.stdout.write(f"{command_to_reuse(cfg, tuned, sys.orig_argv)}\n")
    return ExitStatus.SUCCESS


def with_fast_settings(cfg: Config, signals: Signals) -> Config:
    """The configuration with what --autotune finds, or found when the experiment was begun."""
    earlier = read_cfg_file(cfg_path(cfg)) if cfg_path(cfg).exists() else {}
    if earlier.get("autotune") == "on":
        log.info("--autotune: the experiment goes on with the settings that were found at its start.")
        return cfg
    fixed = frozenset(cfg.cli_args) | frozenset(earlier.get("cli_args") or {})
    tuned = autotune(cfg, probe_environment(cfg), fixed, lambda: signals.status is not None)
    if signals.status is None:
        log.info("The same without --autotune: %s", command_to_reuse(cfg, tuned, sys.orig_argv))
    return tuned


def is_complete(cfg: Config, directory: Path) -> bool:
    """Whether an earlier session has finished what this one asks for; a higher target goes on training."""
    done = directory / DONE_FILE
    if not done.exists():
        return False
    saved = read_cfg_file(cfg_path(cfg)) if cfg_path(cfg).exists() else {}
    for limit in ("train_for_env_steps", "train_for_seconds"):
        if cfg[limit] > saved.get(limit, cfg[limit]):
            done.unlink()
            return False
    log.warning(
        "%s is complete, nothing is left to train: type a higher --train_for_env_steps (now %d) to go on, or "
        "another --experiment.",
        directory,
        cfg.train_for_env_steps,
    )
    return True


@contextmanager
def fork_server(cfg: Config) -> Iterator[None]:
    """The process that workers come from; it imports torch while the session gets ready."""
    if cfg.serial_mode:
        yield
        return
    start_fork_server(PRELOAD)
    try:
        yield
    finally:
        stop_fork_server()


class Session:
    """Runs the components of one experiment until it is time to stop."""

    def __init__(self, cfg: Config, directory: Path, signals: Signals):
        self._cfg = cfg
        self._directory = directory
        self._signals = signals

    def run(self) -> ExitStatus:
        """The whole life of a session; its record is finished also when it cannot begin."""
        record = begin_training(self._cfg, self._directory)
        try:
            return self._run(record)
        except Exception as error:
            trace = getattr(error, "trace", "") or f"{type(error).__name__}: {error}"
            record.finish(RunStatus.FAILED, int(ExitStatus.FAILURE), fail_trace=trace)
            raise

    def _run(self, record: RunRecord) -> ExitStatus:
        try:
            probe = probe_environment(self._cfg)
        except ComponentFailedError as error:
            return self._fail(record, error)
        check(self._cfg, probe.num_agents)
        check_league(self._cfg, probe.num_agents)
        plan = Plan.make(self._cfg, probe.num_agents, probe.num_gpus, self._seed())
        check_machine(plan, probe.trajectories.megabytes(plan.num_slots))
        site = Site.make(self._cfg, plan, probe, self._directory, newest_version(self._directory))
        site = replace(site, workers_log_to_console=not wants_live_display(self._cfg.progress, sys.stderr))
        self._announce(plan, probe)
        league = self._league(site, plan)
        progress = Progress(self._cfg, plan, site.board(), self._directory, self._extra_summaries(), league)
        population = self._population(site, plan, probe)
        engine = self._engine(site, plan)
        steering = Steering(population, league, self._evaluation(site))
        status, failure, unsaved = ExitStatus.FAILURE, None, None
        try:
            engine.start()
            steering.start()
            status = self._loop(engine, progress, steering, record)
        except ComponentFailedError as error:
            failure = error
        finally:
            for report in engine.stop(self._cfg.shutdown_timeout_seconds):
                progress.take(report)
                unsaved = unsaved or _not_saved(report)
            steering.stop(self._cfg.shutdown_timeout_seconds)
            progress.close()
            env_steps = {p: int(n) for p, n in enumerate(site.board().env_steps)}
            site.close()
        progress.note_in(record)
        if failure is None and unsaved is not None and status is ExitStatus.SUCCESS:
            failure = unsaved  # what was learned last is not on the disk, so this is not complete
        if failure is not None:
            return self._fail(record, failure, progress.result())
        if status is ExitStatus.SUCCESS:
            self._mark_as_done(env_steps)
        else:
            if unsaved is not None:
                log.error("%s", unsaved)
            log.info("Stopped early; the same command resumes.")
        progress.note_activities_in(record)
        record.finish(RUN_STATUS[status], int(status), result=progress.result())
        return status

    def _mark_as_done(self, env_steps: dict[int, int]) -> None:
        try:
            (self._directory / DONE_FILE).write_text(f"{env_steps}\n")
        except OSError as error:
            log.error("The experiment is complete but can't be marked as such: %s", error)

    def _fail(
        self, record: RunRecord, failure: ComponentFailedError, result: dict[str, Any] | None = None
    ) -> ExitStatus:
        status = ExitStatus.FAILURE
        record.finish(RUN_STATUS[status], int(status), result=result, fail_trace=failure.trace)
        log.error("%s", post_mortem(self._cfg, self._directory, failure, failure.trace))
        return status

    def _loop(self, engine: Engine, progress: Progress, steering: Steering, record: RunRecord) -> ExitStatus:
        learning = False
        while True:
            for report in engine.poll(POLL_SECONDS):
                progress.take(report)
            if not learning and engine.ready():
                learning = True
                progress.learners_are_up()
            progress.update()
            progress.note_in(record)
            if learning:
                steering.step(progress, self._cfg.pbt_target_objective)
            if self._signals.status is not None:
                return self._signals.status
            if learning and self._is_done(progress):
                return ExitStatus.SUCCESS
            if 0 < self._cfg.execution_time < progress.elapsed_sec:
                return ExitStatus.REQUEUE

    def _is_done(self, progress: Progress) -> bool:
        cfg = self._cfg
        if progress.every_policy_has_more_than(cfg.train_for_env_steps):
            return True
        if progress.elapsed_sec > cfg.train_for_seconds:
            return True
        if not cfg.benchmark:
            return False
        return (
            progress.frames_this_session() >= BENCHMARK_FRAMES
            or progress.samples_this_session() >= BENCHMARK_SAMPLES
        )

    def _population(self, site: Site, plan: Plan, probe: Probe) -> Population | None:
        if not self._cfg.with_pbt or plan.num_policies == 1:
            return None
        seed = plan.seed_for(SeedOf.POPULATION, site.resumed_version)
        shaping, num_roles = probe.reward_shaping, len(probe.roles)
        return Population(self._cfg, site.board(), self._directory, shaping, seed, num_roles)

    def _league(self, site: Site, plan: Plan) -> League | None:
        if not site.players_are_rated:
            return None
        seed = plan.seed_for(SeedOf.LEAGUE, site.resumed_version)
        return League(self._cfg, site.board(), self._directory, seed)

    def _evaluation(self, site: Site) -> SideEvaluation | None:
        if not self._cfg.eval_every_env_steps:
            return None
        return SideEvaluation(self._cfg, site.board(), self._directory, console=site.workers_log_to_console)

    def _engine(self, site: Site, plan: Plan) -> Engine:
        if self._cfg.serial_mode:
            return SerialEngine(site)
        return ParallelEngine(site, Supervisor(max_workers=len(plan.component_names())))

    def _extra_summaries(self) -> ExtraSummaries:
        make = family_for(self._cfg.env).extra_summaries
        return make(self._cfg) if make is not None else NoExtraSummaries()

    def _seed(self) -> int:
        if self._cfg.seed is not None:
            return int(self._cfg.seed)
        return int(np.random.SeedSequence().generate_state(1)[0])

    def _announce(self, plan: Plan, probe: Probe) -> None:
        where = "in rollout workers" if plan.local_inference else "in policy workers"
        log.info(
            "%s: %d rollout workers with %d environments each, inference %s, %d policies of %d parameters, "
            "%d slots in %.0f MB, seed %d.",
            self._directory,
            plan.num_workers,
            plan.num_splits * plan.envs_per_split,
            where,
            plan.num_policies,
            probe.num_parameters,
            plan.num_slots,
            probe.trajectories.megabytes(plan.num_slots),
            plan.seed,
        )


def _not_saved(report: Any) -> ComponentFailedError | None:
    """The failure of a learner that could not save when it was told to end."""
    if isinstance(report, WorkerFailed) and report.name.startswith("learner"):
        return ComponentFailedError(
            f"what {report.name} learned last is not saved: {report.error}", report.trace
        )
    return None


def newest_version(directory: Path) -> int:
    """The highest policy version any checkpoint's name tells; 0 in a fresh experiment."""
    names = directory.glob("checkpoint_p*/checkpoint_*.pth")
    return max((int(path.name.split("_")[1]) for path in names), default=0)
