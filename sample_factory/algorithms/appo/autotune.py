"""`--autotune`: finds fast settings for this machine and environment with short trainings of the real thing.

The session calls it before it trains. Every candidate is run by the same components as a session, in worker
processes, with a throw-away directory; the learner's count of frames is what counts. `autotune_search`
decides what to try.

Invariant: what was typed is not changed, the time limit is kept, and no process, memory or file of a probe
outlives it.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_factory.algorithms.appo.autotune_report import table
from sample_factory.algorithms.appo.autotune_search import (
    POLICY_WORKERS,
    ROLLOUT_WORKERS,
    TUNED,
    Candidate,
    Search,
    first_candidates,
    ladders,
)
from sample_factory.algorithms.appo.builders import learner_threads
from sample_factory.algorithms.appo.engine import ComponentFailedError, Engine, ParallelEngine
from sample_factory.algorithms.appo.plan import Plan, inference_is_local
from sample_factory.algorithms.appo.preflight import check_machine
from sample_factory.algorithms.appo.site import Site
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.config.validation import validate
from sample_factory.processes.affinity import available_cores
from sample_factory.processes.supervision import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from sample_factory.algorithms.appo.probe import Probe

log = logging.getLogger("sample_factory")

TIME_LIMIT_SEC = 50.0  # of all probes; looking at the environment and ending the last one come on top
PROBE_LIMIT_SEC = 25.0
MEASURE_SEC = 3.0
LONGEST_MEASURE_SEC = 8.0
HOPELESS = 0.7  # of the best so far: a probe this slow is ended early
HOPELESS_AFTER_SEC = 1.5
POLL_SEC = 0.02
STOP_SEC = 4.0
MAX_BATCHES_UNDER_WAY = 2  # experience that environments hold; more is fast but outdated when trained on
PREFIX = "sf_autotune_"
# What a probe does differently from the session it stands for: no staggered start, no files.
PROBE_SETTINGS: dict[str, Any] = {
    "benchmark": True,
    "decorrelate_envs_on_one_worker": False,
    "save_every_sec": 1_000_000,
    "log_to_file": False,
    "with_wandb": False,
}


@dataclass
class Meter:
    """Frames per second between two ends of training iterations; the first one marks the start."""

    first: tuple[float, int] | None = None
    last: tuple[float, int] | None = None
    iterations: int = 0
    _frames: int = field(default=0)

    def note(self, now: float, frames: int) -> None:
        """Takes the learners' count; a change is the end of an iteration."""
        if frames == self._frames:
            return
        self._frames = frames
        if self.first is None:
            self.first = now, frames
            return
        self.last = now, frames
        self.iterations += 1

    @property
    def seconds(self) -> float:
        """Between the first and the last iteration's end."""
        return self.last[0] - self.first[0] if self.first is not None and self.last is not None else 0.0

    @property
    def fps(self) -> float:
        """Frames per second; 0 before two iterations have ended."""
        if self.first is None or self.last is None:
            return 0.0
        return (self.last[1] - self.first[1]) / max(self.seconds, 1e-9)

    def is_done(self, now: float, best_fps: float) -> bool:
        """Whether more would not change the verdict."""
        if self.first is None or self.last is None:
            return False
        if self.iterations >= 2 and self.seconds >= HOPELESS_AFTER_SEC and self.fps < HOPELESS * best_fps:
            return True
        elapsed = now - self.first[0]
        return (elapsed >= MEASURE_SEC and self.iterations >= 2) or elapsed >= LONGEST_MEASURE_SEC


def autotune(cfg: Config, probe: Probe, fixed: frozenset[str], stopped: Callable[[], bool]) -> Config:
    """The configuration with the fastest settings found; as it was when `stopped` cuts the search short.

    Args:
        cfg: resolved and checked.
        probe: what is known of the environment, the network and the machine.
        fixed: settings that somebody has decided; they are not touched.
        stopped: whether to give up at once (Ctrl+C).

    Raises:
        ComponentFailedError: when candidates failed and not a single one could be run.
    """
    tuner = _Tuner(cfg, probe, fixed, stopped)
    tuner.run()
    chosen = tuner.search.best
    if stopped():
        return cfg
    if chosen is None:
        log.warning(
            "--autotune: no candidate trained on two batches within %.0f s, so nothing is changed; a smaller "
            "--batch_size is measured sooner.",
            PROBE_LIMIT_SEC,
        )
        return cfg
    log.info("Settings tried by --autotune:\n%s", table(tuner.search.results, chosen))
    return Config.from_dict(cfg.to_dict() | chosen.settings())


class _Tuner:
    """The search and the probes of one call."""

    def __init__(self, cfg: Config, probe: Probe, fixed: frozenset[str], stopped: Callable[[], bool]):
        self._cfg, self._probe, self._stopped = cfg, probe, stopped
        self._seed = int(cfg.seed) if cfg.seed is not None else 0
        self._deadline = time.monotonic() + TIME_LIMIT_SEC
        self._longest_sec = 0.0
        self._failure: ComponentFailedError | None = None
        num_cores = len(available_cores())
        fixed = fixed & frozenset(TUNED)
        first = first_candidates(self._present(), num_cores, fixed)
        self.search = Search(first, ladders(num_cores), fixed, self._is_allowed)
        log.info(
            "--autotune looks for fast settings for up to %.0f s; kept as they are: %s.",
            TIME_LIMIT_SEC,
            ", ".join(f"--{name}" for name in sorted(fixed)) or "none",
        )

    def run(self) -> None:
        """Measures candidates until the time is over or nothing is left to try."""
        with temporary_directory() as directory:
            while self._has_time() and (candidate := self.search.next()) is not None:
                started = time.monotonic()
                fps = self._measure(candidate, directory / str(len(self.search.results)))
                if self._stopped():
                    return
                self._longest_sec = max(self._longest_sec, time.monotonic() - started)
                self.search.tell(candidate, fps)
                log.info("%s: %s", _shown(candidate), "no result" if fps is None else f"{fps:.0f} frames/s")
        if self.search.best is None and self._failure is not None:
            raise self._failure

    def _has_time(self) -> bool:
        left = self._deadline - time.monotonic()
        return not self._stopped() and left > 0.8 * self._longest_sec and left > MEASURE_SEC

    def _present(self) -> Candidate:
        """What the session would use as it is."""
        cfg, probe = self._cfg, self._probe
        plan = Plan.make(cfg, probe.num_agents, probe.num_gpus, self._seed)
        local = inference_is_local(cfg, probe.num_gpus)
        return Candidate(
            num_workers=cfg.num_workers,
            num_envs_per_worker=cfg.num_envs_per_worker,
            worker_num_splits=cfg.worker_num_splits,
            inference=ROLLOUT_WORKERS if local else POLICY_WORKERS,
            learner_threads=learner_threads(cfg.learner_threads, plan),
        )

    def _is_allowed(self, candidate: Candidate) -> bool:
        cfg = self._with(candidate)
        agents = cfg.num_workers * cfg.num_envs_per_worker * self._probe.num_agents
        batch = cfg.batch_size * cfg.num_batches_per_iteration * cfg.num_policies
        if agents * cfg.rollout > MAX_BATCHES_UNDER_WAY * batch:
            return False
        return not validate(cfg, self._probe.num_agents)

    def _with(self, candidate: Candidate) -> Config:
        return Config.from_dict(self._cfg.to_dict() | PROBE_SETTINGS | candidate.settings())

    def _measure(self, candidate: Candidate, directory: Path) -> float | None:
        """Frames per second of a short training; None if it does not work."""
        directory.mkdir()
        limit = min(self._deadline, time.monotonic() + PROBE_LIMIT_SEC)
        try:
            with self._training(self._with(candidate), directory) as (engine, env_steps):
                return self._watch(engine, env_steps, limit)
        except ConfigError as error:
            log.warning("%s can't be tried: %s", _shown(candidate), error)
        except ComponentFailedError as error:
            self._failure = self._failure or error
            log.warning("%s failed: %s", _shown(candidate), error)
        return None

    @contextmanager
    def _training(self, cfg: Config, directory: Path) -> Iterator[tuple[Engine, np.ndarray]]:
        """The components of a session, started; and the learners' counts of frames."""
        plan = Plan.make(cfg, self._probe.num_agents, self._probe.num_gpus, self._seed)
        check_machine(plan, self._probe.trajectories.megabytes(plan.num_slots))
        site = replace(Site.make(cfg, plan, self._probe, directory, 0), workers_log_to_console=False)
        engine = ParallelEngine(site, Supervisor(max_workers=len(plan.component_names())))
        try:
            engine.start()
            yield engine, site.board().env_steps
        finally:
            for _ in engine.stop(STOP_SEC):
                pass
            site.close()

    def _watch(self, engine: Engine, env_steps: np.ndarray, limit: float) -> float | None:
        meter = Meter()
        while (now := time.monotonic()) < limit and not self._stopped():
            for _ in engine.poll(POLL_SEC):
                pass
            meter.note(time.monotonic(), int(env_steps.sum()))
            if meter.is_done(now, self.search.best_fps):
                break
        return meter.fps or None


def _shown(candidate: Candidate) -> str:
    return " ".join(f"--{name}={value}" for name, value in candidate.settings().items())


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory for probes, named after this process, so that what a killed one left can be found."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{PREFIX}*"):
        pid = left.name.removeprefix(PREFIX).partition("_")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}_", ignore_cleanup_errors=True) as name:
        yield Path(name)
