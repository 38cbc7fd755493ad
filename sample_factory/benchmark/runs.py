"""Runs on disk: what one is, and how all below some paths are found.

Every reading command starts with `find_runs`. A run is a directory with run.json and config.json or cfg.json
(ours, sacred's, imitation's), an evaluations.npz of SB3's zoo, an experiment directory of v1, or a line of
a CSV file.

Invariant: nothing is skipped in silence. A run that cannot be read is listed as UNREADABLE, with the reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sample_factory.benchmark.errors import BenchmarkError, ExitCode

COMPLETED = "COMPLETED"
STALE = "STALE"
UNREADABLE = "UNREADABLE"

ScoreSource = Literal["auto", "eval", "train"]


@dataclass(frozen=True)
class Run:
    """One run as tables see it; None is for what is not known.

    Attributes:
        path: directory or file it was read from.
        algo: label that groups runs.
        score_source: "eval" for a score of the final policy, "train" for one of the last training episodes.
        problem: why the run is unreadable or failed, in a line.
        config: its settings.
        record: its run.json.
    """

    path: Path
    algo: str
    env: str
    seed: int | None = None
    status: str = COMPLETED
    score: float | None = None
    score_source: str | None = None
    expert_score: float | None = None
    random_score: float | None = None
    env_steps: int | None = None
    train_seconds: float | None = None
    fps: float | None = None
    episodes: int | None = None
    problem: str = ""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_scored(self) -> bool:
        """Whether the run is complete and has a score."""
        return self.status == COMPLETED and self.score is not None


@dataclass(frozen=True)
class ReadOptions:
    """Where in a record the numbers are.

    Attributes:
        score: which score to take; "auto" takes the one the record names, and never mixes the two.
        score_key: dotted path of the score, for records of other programs; a column of a CSV file.
        env_key: the same for the environment.
        algo_key: the same for the algorithm.
        group_by: settings whose values are added to the algorithm's label.
        score_tag: the tag in metrics.jsonl that training scores come from.
    """

    score: ScoreSource = "auto"
    score_key: str | None = None
    env_key: str | None = None
    algo_key: str | None = None
    group_by: tuple[str, ...] = ()
    score_tag: str | None = None


@dataclass
class FoundRuns:
    """What lies below some paths, in the order of the paths, and remarks about it."""

    paths: list[Path]
    runs: list[Run] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def scored(self) -> list[Run]:
        """The runs that tables are made of, ordered by algorithm, environment and seed."""
        return sorted(
            (run for run in self.runs if run.is_scored),
            key=lambda run: (run.algo, run.env, run.seed is None, run.seed or 0, str(run.path)),
        )

    def status_counts(self) -> Counter[str]:
        """How many runs are in each state."""
        return Counter(run.status for run in self.runs)


def find_runs(paths: Sequence[Path | str], options: ReadOptions | None = None) -> FoundRuns:
    """Reads every run at or below some paths.

    Directories are searched in sorted order, symbolic links to directories are not followed, and a run
    reached twice counts once.

    Raises:
        BenchmarkError: a path does not exist, or nothing is found.
    """
    # Late, because readers make `Run`s.
    from sample_factory.benchmark.readers import read_directory, read_file

    options = options or ReadOptions()
    found = FoundRuns([Path(path) for path in paths])
    seen: set[str] = set()
    for root in found.paths:
        if not root.exists():
            raise BenchmarkError(f"{root} does not exist; name a folder of runs.", ExitCode.NOTHING_FOUND)
        if root.is_file():
            found.runs += read_file(root, options)
            continue
        for directory in _directories(root):
            real = os.path.realpath(directory)
            if real not in seen:
                seen.add(real)
                read_directory(directory, options, found)
    _drop_copies(found)
    if not found.runs:
        raise BenchmarkError(
            f"no runs found under {' '.join(map(str, found.paths))} (a run is a folder with run.json and "
            "config.json or cfg.json).",
            ExitCode.NOTHING_FOUND,
        )
    return found


def scored_runs(found: FoundRuns, options: ReadOptions | None = None) -> list[Run]:
    """The runs with scores, all from the same source.

    Raises:
        BenchmarkError: there are none, or training and evaluation scores are mixed.
    """
    options = options or ReadOptions()
    runs = found.scored
    if not runs:
        states = ", ".join(f"{count} {status}" for status, count in sorted(found.status_counts().items()))
        raise BenchmarkError(
            f"none of the runs has a score yet ({states}); --score=train takes the last training episodes.",
            ExitCode.NOTHING_FOUND,
        )
    if len({run.score_source for run in runs}) > 1:
        raise BenchmarkError("scores come from different sources; pass --score=train.")
    return runs


def _drop_copies(found: FoundRuns) -> None:
    """Keeps one of several copies of a run, such as an exported one, by the id in its record."""
    originals: dict[str, Run] = {}
    kept = [run for run in found.runs if originals.setdefault(_identity(run), run) is run]
    copies = len(found.runs) - len(kept)
    if copies:
        found.warnings.append(f"{copies} runs are copies of others and count once.")
        found.runs[:] = kept


def _identity(run: Run) -> str:
    return str(run.record.get("id") or f"object {id(run)}")


def _directories(root: Path) -> list[Path]:
    directories = []
    for parent, children, _ in os.walk(root, followlinks=False):
        children.sort()
        directories.append(Path(parent))
    return directories
