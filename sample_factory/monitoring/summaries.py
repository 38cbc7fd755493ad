"""What a session writes for later: an event file per policy, and the same scalars in `metrics.jsonl`.

The session owns one `Summaries` and hands it statistics and reports; tags are those of v1, the horizontal
axis is the policy's env steps. When to write is decided by the pure functions at the top.

Invariant: a disk that refuses costs summaries, never training; it is logged once per trouble, and retried.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from sample_factory.monitoring.event_file import EventFile
from sample_factory.monitoring.log import logger
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, append_metrics
from sample_factory.monitoring.reports import ComponentReport, TrainReport
from sample_factory.monitoring.statistics import EpisodeStatistics
from sample_factory.monitoring.wandb_run import WandbRun

SUMMARY_DIR_NAME = ".summary"

_ENOUGH_EPISODES = 10
_LONG_RUN_SEC = 300.0
_WITH_EXTREMES = ("reward", "true_reward", "len")
# (policy version, seconds): details matter early, and a long run must not write gigabytes.
_TRAIN_PERIODS = ((0, 5.0), (100_000, 120.0), (1_000_000, 240.0))
# Kind of component -> its words in the v1 tags of timings and of memory.
_V1_KINDS = {"rollout_worker": ("actor", "actor"), "policy_worker": ("policy", "policy_worker")}


def train_summary_period_sec(policy_version: int) -> float:
    """Seconds between train summaries: 5 at first, 120 at 100k SGD steps, 240 from 1M on, linear between."""
    if policy_version <= 0:
        return _TRAIN_PERIODS[0][1]
    for (start, start_sec), (end, end_sec) in pairwise(_TRAIN_PERIODS):
        if policy_version < end:
            return start_sec + (end_sec - start_sec) * (policy_version - start) / (end - start)
    return _TRAIN_PERIODS[-1][1]


def train_summary_due(policy_version: int, since_last_sec: float) -> bool:
    """Whether a learner should compute its train scalars now."""
    return since_last_sec >= train_summary_period_sec(policy_version)


def episodic_summary_due(interval_sec: float, since_last_sec: float) -> bool:
    """Whether to write episodic and speed summaries now (`--experiment_summaries_interval`)."""
    return since_last_sec >= interval_sec


def window_is_meaningful(count: int, stats_avg: int, run_time_sec: float) -> bool:
    """Whether a moving window may be written: when full, or when the run is long and episodes are rare."""
    return count >= stats_avg or (count > _ENOUGH_EPISODES and run_time_sec > _LONG_RUN_SEC)


def episode_scalars(statistics: EpisodeStatistics, policy_id: int, run_time_sec: float) -> dict[str, float]:
    """The episodic tags of one policy with their values; only windows that mean something."""
    scalars: dict[str, float] = {}
    for name, window in statistics.summaries(policy_id).items():
        if not window_is_meaningful(window.count, statistics.stats_avg, run_time_sec):
            continue
        # A name with a slash already says which section of TensorBoard it belongs to.
        scalars[name if "/" in name else f"0_aux/avg_{name}"] = window.mean
        if name in _WITH_EXTREMES:
            scalars[f"0_aux/avg_{name}_min"] = window.min
            scalars[f"0_aux/avg_{name}_max"] = window.max
    return scalars


class Summaries:
    """The writers of one session, one event file per policy."""

    def __init__(
        self,
        experiment_dir: Path,
        num_policies: int,
        flush_secs: float,
        *,
        also: WandbRun | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._metrics_path = experiment_dir / METRICS_FILE_NAME
        self._summary_dirs = [experiment_dir / SUMMARY_DIR_NAME / str(p) for p in range(num_policies)]
        self._flush_secs = flush_secs
        self._also = also
        self._clock = clock
        self._files: dict[int, EventFile] = {}
        self._last_flush = clock()
        self._in_trouble: set[Path] = set()

    def write(self, policy_id: int, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars under their full tags at one point of a policy's axis."""
        if not scalars:
            return
        now = self._clock()
        values = {tag: float(value) for tag, value in scalars.items()}
        self._add_event(policy_id, lambda file: file.add_scalars(values, env_steps, now))
        if self._also is not None:
            self._also.log(policy_id, env_steps, values)
        record = {"time": round(now, 3), "env_steps": env_steps, "policy": policy_id, **values}
        try:
            append_metrics(self._metrics_path, record)
            self._in_trouble.discard(self._metrics_path)
        except OSError as error:
            self._report(self._metrics_path, error)

    def write_episodes(
        self, policy_id: int, env_steps: int, statistics: EpisodeStatistics, run_time_sec: float
    ) -> None:
        """Writes the moving windows of one policy's episodes."""
        self.write(policy_id, env_steps, episode_scalars(statistics, policy_id, run_time_sec))

    def write_train(self, report: TrainReport) -> None:
        """Writes what a learner measured."""
        scalars = {f"train/{name}": value for name, value in report.scalars.items()}
        self.write(report.policy_id, report.env_steps, scalars)
        if any(report.lag_histogram):
            now = self._clock()
            self._add_event(
                report.policy_id,
                lambda file: file.add_histogram(
                    "train/policy_lag", report.lag_histogram, report.env_steps, now
                ),
            )

    def write_speed(
        self, env_steps: Sequence[int], fps: float, throughput: Sequence[float], memory_mb: float
    ) -> None:
        """Writes each policy's sampling throughput, and with policy 0 the speed and memory of the session."""
        session = {"0_aux/_fps": fps, "0_aux/master_process_memory_mb": memory_mb}
        for policy_id, samples_per_sec in enumerate(throughput):
            scalars = {"0_aux/_sample_throughput": samples_per_sec} | (session if policy_id == 0 else {})
            self.write(policy_id, env_steps[policy_id], scalars)

    def write_components(self, env_steps: int, reports: Iterable[ComponentReport]) -> None:
        """Writes timings and memory under `stats/`, averaged over components of the same kind."""
        self.write(0, env_steps, component_scalars(reports))

    def flush(self) -> None:
        """Brings everything to disk."""
        self._last_flush = self._clock()
        for policy_id, file in list(self._files.items()):
            try:
                file.flush()
                self._in_trouble.discard(self._summary_dirs[policy_id])
            except OSError as error:
                # The file may end in a torn record, and TensorBoard reads no further: go on in a new one.
                self._files.pop(policy_id).close()
                self._report(self._summary_dirs[policy_id], error)

    def close(self) -> None:
        """Flushes and closes; writing again starts new event files."""
        self.flush()
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._also is not None:
            self._also.close()

    def _add_event(self, policy_id: int, add: Callable[[EventFile], None]) -> None:
        try:
            if policy_id not in self._files:
                self._files[policy_id] = EventFile(self._summary_dirs[policy_id], self._clock())
            add(self._files[policy_id])
        except OSError as error:
            self._report(self._summary_dirs[policy_id], error)
        if self._clock() - self._last_flush >= self._flush_secs:
            self.flush()

    def _report(self, path: Path, error: OSError) -> None:
        if path not in self._in_trouble:
            self._in_trouble.add(path)
            logger().error(
                "Cannot write summaries to %s (%s); training goes on, and writing is tried again.",
                path,
                error.strerror or error,
            )


def component_scalars(reports: Iterable[ComponentReport]) -> dict[str, float]:
    """`stats/` tags: timings and memory of each kind of component, averaged over its members."""
    collected: dict[str, list[float]] = {}
    for report in reports:
        kind = report.name.rstrip("0123456789_")
        short_name, memory_name = _V1_KINDS.get(kind, (kind, kind))
        collected.setdefault(f"stats/memory_{memory_name}", []).append(report.memory_mb)
        for activity, seconds in report.timings.items():
            collected.setdefault(f"stats/{activity}_{short_name}", []).append(seconds)
    return {tag: math.fsum(values) / len(values) for tag, values in collected.items()}
