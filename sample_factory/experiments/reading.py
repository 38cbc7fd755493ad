"""What is known about an experiment: its state, progress, speed, scores and last error.

`sf ls`, `sf status` and the dashboard show it. Settings and results come from the run's record, the rest from
the ends of metrics.jsonl and sf_log.txt; whether it runs is told by the lock of its directory.

Invariant: reading one experiment costs the same however long it has been training, and never raises.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sample_factory.algorithms.appo.verdict import last_sentence
from sample_factory.benchmark.curves import FPS_TAG, SCORE_TAGS
from sample_factory.benchmark.readers import dig, read_experiment, read_record
from sample_factory.benchmark.run_record import RUN_FILE, RunStatus
from sample_factory.benchmark.runs import STALE, UNREADABLE, ReadOptions, Run
from sample_factory.benchmark.status import output_file
from sample_factory.experiments.files import Tail, best_scores, newest_records, read_tail, size_of
from sample_factory.monitoring.log import LOG_FILE_NAME
from sample_factory.monitoring.metrics import METRICS_FILE_NAME
from sample_factory.monitoring.statistics import seconds_until
from sample_factory.processes.directory_lock import LOCK_FILE, lock_holder
from sample_factory.runner.failure import cause_in, last_attempt

TROUBLED = (RunStatus.FAILED, STALE, UNREADABLE)
_TRACEBACK = "Traceback (most recent call last)"
GONE = "its process is gone and left no word (killed, perhaps out of memory); the same command resumes"
# A score of training comes from the directory's curve, which is read from its end here.
_ONLY_RECORDED = ReadOptions(score="eval")
_AUTO = ReadOptions()


@dataclass(frozen=True)
class Experiment:
    """One experiment as lists show it; None is for what is not known.

    Attributes:
        name: its path below the train_dir.
        status: of the run's record, corrected by whether a process really holds the directory.
        pid: the process that trains it now.
        env_steps: frames of each policy.
        target: frames after which it ends.
        score: of an evaluation if there was one, else of the latest training episodes; the best policy's.
        best_score: the highest training score that is known.
        active: when it last wrote something, unix time.
        problem: why it failed, in a line.
    """

    name: str
    path: Path
    run: Run
    status: str
    pid: int | None
    env_steps: tuple[int, ...]
    target: int | None
    fps: float | None
    score: float | None
    best_score: float | None
    started: float | None
    active: float
    size_bytes: int
    problem: str

    @property
    def is_running(self) -> bool:
        """Whether it trains now."""
        return self.status == RunStatus.RUNNING

    @property
    def frames(self) -> int | None:
        """Frames of all policies."""
        return sum(self.env_steps) if self.env_steps else None

    @property
    def progress(self) -> float | None:
        """How far the slowest policy is, from 0 to 1."""
        if not self.env_steps or not self.target:
            return None
        return min(1.0, min(self.env_steps) / self.target)

    @property
    def left_sec(self) -> float | None:
        """Seconds until it has all its frames; None unless it is running."""
        if not self.is_running or not self.env_steps or not self.target or not self.fps:
            return None
        return seconds_until(self.target, self.env_steps, self.fps)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values, for programs."""
        return {
            "name": self.name,
            "path": str(self.path),
            "algo": self.run.algo,
            "env": self.run.env,
            "seed": self.run.seed,
            "status": str(self.status),
            "pid": self.pid,
            "frames": self.frames,
            "env_steps": list(self.env_steps),
            "target": self.target,
            "progress": self.progress,
            "fps": self.fps,
            "left_sec": self.left_sec,
            "score": self.score,
            "best_score": self.best_score,
            "started": self.started,
            "active": self.active,
            "train_seconds": self.run.train_seconds,
            "size_bytes": self.size_bytes,
            "problem": self.problem,
        }


def read_experiments(found: Mapping[str, Path]) -> list[Experiment]:
    """All of some experiments, in their order."""
    return [read(name, path) for name, path in found.items()]


def read(name: str, path: Path) -> Experiment:
    """One experiment, from its record and the ends of its files."""
    run = read_record(path, _AUTO) if (path / RUN_FILE).exists() else read_experiment(path, _ONLY_RECORDED)
    pid = lock_holder(path)
    status = _status(run, pid, path)
    metrics = read_tail(path / METRICS_FILE_NAME)
    latest = _latest(metrics, _num_policies(run))
    is_evaluated = run.score_source == "eval" and run.score is not None
    return Experiment(
        name=name,
        path=path,
        run=run,
        status=status,
        pid=pid,
        env_steps=latest.env_steps or _recorded_steps(run),
        target=_whole(run.config.get("train_for_env_steps")),
        fps=latest.fps if latest.fps is not None else run.fps,
        score=run.score if is_evaluated else latest.score,
        best_score=_best(path, metrics, latest.score),
        started=_unix(run.record.get("start_time")),
        active=_last_written(path),
        size_bytes=size_of(path),
        problem=_problem(run, status, path) if status in TROUBLED else "",
    )


def read_verdict(path: Path) -> str:
    """What limits the speed of an experiment, as its session said last; empty if it has not."""
    return last_sentence(read_tail(path / LOG_FILE_NAME).text)


def read_shares(path: Path) -> dict[str, float]:
    """How the components of an experiment spend their time, in per cent of all, as written last."""
    names = ("environment", "inference", "learner", "waiting", "other")
    for record in newest_records(read_tail(path / METRICS_FILE_NAME)):
        if "stats/environment_percent" in record:
            return {name: float(record.get(f"stats/{name}_percent") or 0.0) for name in names}
    return {}


@dataclass
class _Latest:
    env_steps: tuple[int, ...] = ()
    score: float | None = None
    fps: float | None = None


def _latest(metrics: Tail, num_policies: int) -> _Latest:
    """The newest steps of each policy, speed, and score of the best policy; stops when all are known."""
    steps: dict[int, int] = {}
    scores: dict[int, float] = {}
    fps: float | None = None
    for record in newest_records(metrics):
        policy = record.get("policy")
        if not isinstance(policy, int) or not isinstance(record.get("env_steps"), int):
            continue
        steps.setdefault(policy, record["env_steps"])
        score = _first_number(record, SCORE_TAGS)
        if score is not None:
            scores.setdefault(policy, score)
        if fps is None:
            fps = _first_number(record, (FPS_TAG,))
        if fps is not None and len(scores) == len(steps) == num_policies:
            break
    known = tuple(steps[policy] for policy in sorted(steps))
    return _Latest(known, max(scores.values()) if scores else None, fps)


def _best(path: Path, metrics: Tail, latest: float | None) -> float | None:
    """The best checkpoint's score, or the latest if that is higher and not saved yet.

    Without a best checkpoint it is the highest in metrics, or None if their beginning is not at hand.
    """
    saved = list(best_scores(path).values())
    if saved:
        return max(saved) if latest is None else max(*saved, latest)
    if not metrics.is_whole:
        return None
    scores = [_first_number(record, SCORE_TAGS) for record in newest_records(metrics)]
    return max((score for score in scores if score is not None), default=None)


def _status(run: Run, pid: int | None, path: Path) -> str:
    if pid is not None:
        return RunStatus.RUNNING
    here = dig(run.record, "host.hostname") == socket.gethostname()
    if run.status == RunStatus.RUNNING and here and (path / LOCK_FILE).exists():
        return STALE  # sooner than by its heartbeat: nobody holds the directory
    return run.status


def _problem(run: Run, status: str, path: Path) -> str:
    if run.problem:
        return run.problem
    log = output_file(path)
    text = last_attempt(log) if log is not None else ""
    if status != STALE:
        return cause_in(text)
    return f"{GONE}; last exception in its log: {cause_in(text)}" if _TRACEBACK in text else GONE


def _last_written(path: Path) -> float:
    times = []
    for name in (METRICS_FILE_NAME, RUN_FILE, LOG_FILE_NAME, "."):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=time.time())


def _num_policies(run: Run) -> int:
    return _whole(run.config.get("num_policies")) or 1


def _recorded_steps(run: Run) -> tuple[int, ...]:
    """The record knows the sum over policies only."""
    if run.env_steps is None:
        return ()
    policies = _num_policies(run)
    return (run.env_steps // policies,) * policies


def _first_number(record: Mapping[str, Any], tags: Iterable[str]) -> float | None:
    for tag in tags:
        value = record.get(tag)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _unix(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def by_status(experiments: Sequence[Experiment]) -> dict[str, int]:
    """How many experiments are in each state, sorted by state."""
    counts: dict[str, int] = {}
    for experiment in experiments:
        counts[str(experiment.status)] = counts.get(str(experiment.status), 0) + 1
    return dict(sorted(counts.items()))
