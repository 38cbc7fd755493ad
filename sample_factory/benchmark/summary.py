"""The summary of many runs: statistics per algorithm and environment, and over all environments.

`summarize` computes it; `summary_formats`, `html_report` and `plots` show it. It holds everything an output
needs, so that all outputs of one set of runs agree.

Invariant: only completed runs with a score count, and how many did not is always said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sample_factory.benchmark.references import NOT_NORMALIZED, ReferenceTable, reference_table
from sample_factory.benchmark.runs import COMPLETED, FoundRuns, ReadOptions, Run, scored_runs
from sample_factory.benchmark.statistics import aggregates
from sample_factory.benchmark.statistics.aggregates import Description, as_tasks, describe
from sample_factory.benchmark.statistics.bootstrap import FEW_RUNS, Bootstrap, Interval, interval

_AGGREGATES = (
    ("Mean", aggregates.mean),
    ("Median", aggregates.median),
    ("IQM", aggregates.iqm),
    ("Optimality gap", aggregates.optimality_gap),
)
FEW_RUNS_NOTE = "few runs: the interval is optimistic"


@dataclass(frozen=True)
class SummaryOptions:
    """How a summary is computed.

    Attributes:
        normalize: see `references.NORMALIZATIONS`.
        baselines: scores that normalisation may use.
        truncate: use equally many runs everywhere, those with the lowest seeds.
    """

    normalize: str = "auto"
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    truncate: bool = False


@dataclass(frozen=True)
class Cell:
    """The runs of one algorithm on one environment, ordered by seed."""

    algo: str
    env: str
    runs: tuple[Run, ...]
    scores: np.ndarray
    normalized: np.ndarray | None
    interval: Interval

    @cached_property
    def description(self) -> Description:
        """Statistics of the scores."""
        return describe(self.scores)

    @property
    def fps(self) -> float | None:
        """Mean frames per second of the runs that know it."""
        return _mean_known([run.fps for run in self.runs])

    @property
    def train_seconds(self) -> float | None:
        """Mean training time of the runs that know it."""
        return _mean_known([run.train_seconds for run in self.runs])


@dataclass(frozen=True)
class Aggregate:
    """One number over all environments of an algorithm."""

    metric: str
    value: float
    interval: Interval


@dataclass
class Summary:
    """Everything about a set of runs."""

    found: FoundRuns
    options: SummaryOptions
    references: ReferenceTable
    score_source: str
    cells: list[Cell]
    aggregates: dict[str, list[Aggregate]]
    notes: list[str]

    @property
    def algos(self) -> list[str]:
        """The algorithms, sorted."""
        return sorted({cell.algo for cell in self.cells})

    @property
    def envs(self) -> list[str]:
        """The environments, sorted."""
        return sorted({cell.env for cell in self.cells})

    def cells_of(self, algo: str) -> list[Cell]:
        """The cells of an algorithm, by environment."""
        return [cell for cell in self.cells if cell.algo == algo]

    def cell(self, algo: str, env: str) -> Cell | None:
        """One cell, if that algorithm ran there."""
        return next((cell for cell in self.cells if (cell.algo, cell.env) == (algo, env)), None)

    def tasks(self, algo: str) -> list[np.ndarray]:
        """The scores of an algorithm per environment, normalised if the summary is."""
        return tasks_of(self.cells_of(algo))

    @property
    def unfinished(self) -> list[Run]:
        """Runs that count for nothing, for whatever reason."""
        return [run for run in self.found.runs if not run.is_scored]


def summarize(
    found: FoundRuns, options: SummaryOptions | None = None, read_options: ReadOptions | None = None
) -> Summary:
    """Computes the summary of some runs.

    Raises:
        BenchmarkError: no run has a score, or they can't be normalised as asked.
    """
    options = options or SummaryOptions()
    runs = scored_runs(found, read_options)
    references = reference_table(options.normalize, runs, options.baselines)
    groups = group_runs(runs)
    if options.truncate:
        shortest = min(len(group) for group in groups.values())
        groups = {key: group[:shortest] for key, group in groups.items()}
    cells = [_cell(algo, env, group, references, options.bootstrap) for (algo, env), group in groups.items()]
    summary = Summary(found, options, references, runs[0].score_source or "eval", cells, {}, [])
    for algo in summary.algos:
        summary.aggregates[algo] = aggregate(summary.cells_of(algo), options.bootstrap)
    summary.notes = _notes(summary)
    return summary


def group_runs(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    """Runs by algorithm and environment, in the order they come in."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.algo, run.env), []).append(run)
    return groups


def aggregate(cells: Sequence[Cell], bootstrap: Bootstrap) -> list[Aggregate]:
    """Numbers over several environments; none for raw scores of several, which have no common scale."""
    is_normalized = all(cell.normalized is not None for cell in cells)
    if not is_normalized and len(cells) > 1:
        return []
    tasks = tasks_of(cells)
    return [
        Aggregate(name, float(statistic(tasks)), interval(statistic, tasks, settings=bootstrap))
        for name, statistic in _AGGREGATES
        if is_normalized or statistic is not aggregates.optimality_gap
    ]


def tasks_of(cells: Sequence[Cell]) -> list[np.ndarray]:
    """The scores of some cells, normalised if they are."""
    return as_tasks([cell.scores if cell.normalized is None else cell.normalized for cell in cells])


def _cell(algo: str, env: str, runs: Sequence[Run], references: ReferenceTable, bootstrap: Bootstrap) -> Cell:
    scores = np.array([run.score for run in runs], dtype=np.float64)
    normalized = references.references[env].normalize(scores) if references.is_normalized else None
    bounds = interval(aggregates.mean, [scores], settings=bootstrap)
    return Cell(algo, env, tuple(runs), scores, normalized, bounds)


def _notes(summary: Summary) -> list[str]:
    notes = []
    if any(cell.description.n < FEW_RUNS for cell in summary.cells):
        notes.append(f"Fewer than {FEW_RUNS} runs in places ({FEW_RUNS_NOTE}).")
    if summary.references is NOT_NORMALIZED and len(summary.envs) > 1:
        notes.append(
            "Scores are not normalised, so there is no number over all environments; --normalize=minmax or "
            "--baselines=FILE gives one."
        )
    notes += [
        f"{algo} ran on {len(ran)} of {len(summary.envs)} environments; its numbers over all environments "
        "cover only these."
        for algo in summary.algos
        if len(ran := summary.cells_of(algo)) < len(summary.envs) and summary.aggregates[algo]
    ]
    if len({len(cell.runs) for cell in summary.cells}) > 1:
        how = "lowest seeds of each are used" if summary.options.truncate else "each weighs the same"
        notes.append(f"Environments have different numbers of runs; {how}.")
    machines = {_machine(run) for cell in summary.cells for run in cell.runs if run.fps is not None}
    if len(machines) > 1:
        notes.append(
            f"FPS and hours were measured on {len(machines)} machines or packings of jobs and can't "
            "be compared."
        )
    repeated = sorted({f"{cell.algo} on {cell.env}" for cell in summary.cells if _repeats_a_seed(cell.runs)})
    if repeated:
        notes.append(
            f"Several runs have the same seed: {', '.join(repeated)}. Is one of them an old attempt?"
        )
    unscored = [run for run in summary.unfinished if run.status == COMPLETED]
    if unscored:
        notes.append(f"{len(unscored)} completed runs have no score and count for nothing.")
    return notes


def _repeats_a_seed(runs: Sequence[Run]) -> bool:
    seeds = [run.seed for run in runs if run.seed is not None]
    return len(seeds) > len(set(seeds))


def _machine(run: Run) -> tuple[str, ...]:
    host, job = run.record.get("host") or {}, run.record.get("job") or {}
    return (str(host.get("cpu")), str(host.get("gpus")), str(job.get("colocated_jobs")))


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
