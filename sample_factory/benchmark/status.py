"""What every run is doing: state, progress, speed, time left, and the last words of those that failed.

`status` prints it while a benchmark runs. Progress comes from run.json, or from metrics.jsonl where a run
has no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.curves import FPS_TAG, read_curve
from sample_factory.benchmark.run_record import OUTPUT_FILE, RunStatus
from sample_factory.benchmark.runs import STALE, UNREADABLE, Run
from sample_factory.benchmark.tables import Table
from sample_factory.monitoring.log import LOG_FILE_NAME

TROUBLED = (RunStatus.FAILED, STALE, UNREADABLE)
_LAST_WORDS_BYTES = 4000
_MANIFEST = "manifest.json"  # of the runner, whose logs lie beside it


def status_table(runs: Sequence[Run]) -> Table:
    """One row per run."""
    table = Table(
        ["Algorithm", "Environment", "Seed", "Status", "Frames", "Done", "FPS", "Time", "Left", "Run"]
    )
    for run in runs:
        frames, fps = progress(run)
        target = run.config.get("train_for_env_steps")
        share = f"{100 * min(1.0, frames / target):.0f}%" if frames is not None and target else ""
        table.rows.append(
            [
                run.algo,
                run.env,
                "" if run.seed is None else str(run.seed),
                run.status,
                text.count(frames),
                share,
                text.count(fps),
                text.duration(run.train_seconds),
                text.duration(seconds_left(run, frames, fps)) if run.status == RunStatus.RUNNING else "",
                str(run.path),
            ]
        )
    return table


def last_words(run: Run) -> str:
    """Why a run failed: the end of its traceback, else the last line it printed."""
    if run.problem:
        return run.problem
    path = output_file(run.path)
    if path is None:
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST_WORDS_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def output_file(directory: Path) -> Path | None:
    """Where the output of a run is: beside its record, in the runner's logs, or the log of its session."""
    candidates = [directory / OUTPUT_FILE]
    run_dir = next((parent for parent in directory.parents if (parent / _MANIFEST).exists()), None)
    if run_dir is not None:
        candidates.append(run_dir / "logs" / f"{directory.name}.log")
    candidates.append(directory / LOG_FILE_NAME)
    return next((path for path in candidates if path.is_file()), None)


def progress(run: Run) -> tuple[int | None, float | None]:
    """Frames and frames per second so far."""
    frames, fps = run.env_steps, run.fps
    if frames is None or fps is None:
        speed = read_curve(run.path, FPS_TAG) if run.path.is_dir() else None
        if speed is not None:
            frames = int(speed.env_steps[-1]) if frames is None else frames
            fps = float(speed.values[-1]) if fps is None else fps
    return frames, fps


def seconds_left(run: Run, frames: int | None, fps: float | None) -> float | None:
    """Until the run has all its frames, at its present speed."""
    target = run.config.get("train_for_env_steps")
    if not target or not fps or frames is None:
        return None
    return max(0.0, (float(target) - frames) / fps)
