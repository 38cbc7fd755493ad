"""The dummy sampler: how fast an environment can be sampled by a policy that does not think.

Starts `--num_workers` processes, lets them begin together, and reports frames per second every second. The
last line contains `avg FPS: <number>`, which scripts look for.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable

from sample_factory.algorithms.appo.engine import MAX_NICENESS, SINGLE_THREADED, ComponentFailedError
from sample_factory.algorithms.appo.exits import ExitStatus, Signals, catch_signals
from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.algorithms.dummy_sampler.worker import SamplerWorkerBuilder
from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError
from sample_factory.config.validation import check
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.monitoring.log import init_logging
from sample_factory.processes.affinity import available_cores, cores_for_worker
from sample_factory.processes.child_call import ChildCallError, call_in_child
from sample_factory.processes.fork_server import start_fork_server, stop_fork_server
from sample_factory.processes.one_time_event import OneTimeEvent
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from sample_factory.processes.supervision import Supervisor
from sample_factory.processes.worker import WorkerSpec

log = logging.getLogger("sample_factory")

WINDOWS_SEC = (1, 10, 60, 300, 600)
REPORT_SEC = 1.0
START_LIMIT_SEC = 600.0
STOP_SEC = 5.0
PRELOAD = ("sample_factory.algorithms.dummy_sampler.worker", "sample_factory.envs.make")


class SamplerFailedError(RuntimeError):
    """A worker died; the measurement would be wrong without it."""


def run_dummy_sampler(cfg: Config) -> ExitStatus:
    """Samples as `cfg` says and logs the speed."""
    check(cfg)
    directory = experiment_dir(cfg)
    directory.mkdir(parents=True, exist_ok=True)
    init_logging(directory, log_to_file=True)
    with catch_signals() as signals:
        start_fork_server(PRELOAD)
        try:
            _try_environment(cfg)
            return _sample(cfg, signals)
        finally:
            stop_fork_server()


def _try_environment(cfg: Config) -> None:
    """Makes and closes one environment, so that a wrong name is one sentence and not one per worker."""
    try:
        call_in_child(_make_and_close, cfg, UserCode.capture(), timeout=START_LIMIT_SEC)
    except ChildCallError as error:
        if isinstance(error.__cause__, ConfigError | UnknownEnvError | MissingPackageError):
            raise error.__cause__ from None
        raise ComponentFailedError(f"--env={cfg.env} can't be made: {error}", error.trace) from None


def _make_and_close(cfg: Config, user_code: UserCode) -> None:
    from sample_factory.envs.make import make_env

    user_code.restore()
    make_env(cfg.env, cfg, None).close()


def _sample(cfg: Config, signals: Signals) -> ExitStatus:
    numbers = SharedArrays({"frames": ArraySpec((cfg.num_workers,), "int64")}, "sample_factory_sampler")
    start = OneTimeEvent()
    supervisor = Supervisor(max_workers=cfg.num_workers)
    try:
        user_code = UserCode.capture()
        for worker_id in range(cfg.num_workers):
            builder = SamplerWorkerBuilder(cfg, user_code, numbers, start, worker_id)
            supervisor.start(_spec(cfg, builder))
        _await_workers(cfg, supervisor, signals)
        start.set()
        frames, seconds = _measure(cfg, supervisor, numbers, signals)
    except SamplerFailedError as error:
        log.error("%s", error)
        return ExitStatus.FAILURE
    finally:
        supervisor.stop_all(STOP_SEC)
        start.close()
    log.info("Sampled %d frames in %.1f s, avg FPS: %.1f", frames, seconds, frames / max(seconds, 1e-9))
    return ExitStatus.SUCCESS


def _spec(cfg: Config, builder: SamplerWorkerBuilder) -> WorkerSpec:
    cores, worker_id = None, builder.worker_id
    if cfg.set_workers_cpu_affinity:
        cores = cores_for_worker(worker_id, cfg.num_workers, available_cores())
    gpus = cfg.sampler_worker_gpus
    gpu = {"CUDA_VISIBLE_DEVICES": str(gpus[worker_id % len(gpus)])} if gpus else {}
    return WorkerSpec(
        name=f"sampler_worker_{worker_id}",
        build=builder,
        cores=cores,
        niceness=min(10, MAX_NICENESS),
        silence_limit_sec=START_LIMIT_SEC,
        start_limit_sec=START_LIMIT_SEC,
        environment=SINGLE_THREADED | gpu,
    )


def _await_workers(cfg: Config, supervisor: Supervisor, signals: Signals) -> None:
    started = time.monotonic()
    while not supervisor.all_started() and signals.status is None:
        _watch(supervisor, timeout=0.1)
        if time.monotonic() - started > START_LIMIT_SEC:
            raise SamplerFailedError(
                f"--env={cfg.env}: not all workers came up within {START_LIMIT_SEC:.0f} s."
            )


def _watch(supervisor: Supervisor, timeout: float) -> None:
    for _ in supervisor.reports(timeout):
        pass
    for death in supervisor.check():
        raise SamplerFailedError(f"{death.trace}{death.name} failed: {death.cause}")


def _measure(
    cfg: Config, supervisor: Supervisor, numbers: SharedArrays, signals: Signals
) -> tuple[int, float]:
    """Watches the counters until one of the limits is reached; returns frames and seconds."""
    started = time.monotonic()
    history: deque[tuple[float, int]] = deque([(started, 0)], maxlen=WINDOWS_SEC[-1] + 2)
    next_report = started + REPORT_SEC
    while True:
        _watch(supervisor, timeout=0.05)
        now, per_worker = time.monotonic(), numbers["frames"].copy()
        frames = int(per_worker.sum())
        if now >= next_report:
            next_report += REPORT_SEC
            history.append((now, frames))
            log.info("%s", report_line(history))
        if (
            signals.status is not None
            or frames >= cfg.sample_env_frames
            or bool((per_worker >= cfg.sample_env_frames_per_worker).all())
            or now - started >= cfg.timeout_seconds
        ):
            return frames, now - started


def report_line(history: Iterable[tuple[float, int]]) -> str:
    """Frames per second over each window, from `(time, total frames)` records a second apart."""
    records = list(history)
    now, frames = records[-1]
    parts = []
    for window in WINDOWS_SEC:
        then, before = next(record for record in records if now - record[0] <= window + REPORT_SEC / 2)
        parts.append(f"{window} sec: {(frames - before) / max(now - then, 1e-9):.1f}")
    return f"FPS ({', '.join(parts)}). Total frames: {frames}"
