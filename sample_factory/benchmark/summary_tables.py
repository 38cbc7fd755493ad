"""The tables of a summary, before anybody decides whether they become markdown, HTML or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.runs import Run
from sample_factory.benchmark.statistics.aggregates import describe
from sample_factory.benchmark.status import last_words
from sample_factory.benchmark.summary import Aggregate, Cell, Summary
from sample_factory.benchmark.tables import Table

BASIC_COLUMNS = ("algo", "env", "score", "expert_score")
ALL_COLUMNS = (
    *BASIC_COLUMNS,
    "seed",
    "status",
    "env_steps",
    "train_seconds",
    "fps",
    "episodes",
    "score_source",
    "run_dir",
)
AGGREGATED_COLUMNS = (
    *("algo", "env", "n", "mean", "std_pop", "sem", "median", "iqm", "ci_low", "ci_high", "min", "max"),
    *("normalized_mean", "normalized_std"),
)


def run_table(runs: Sequence[Run], columns: Sequence[str]) -> Table:
    """One row per run, numbers in full precision."""
    return Table(columns, [[_run_cell(run, column) for column in columns] for run in runs])


def cell_table(summary: Summary) -> Table:
    """One row per algorithm and environment, numbers in full precision."""
    rows = []
    for cell in summary.cells:
        described = cell.description
        normalized = describe(cell.normalized) if cell.normalized is not None else None
        values = (
            *(described.n, described.mean, described.std, described.sem, described.median, described.iqm),
            *((cell.interval.low, cell.interval.high) if cell.interval.is_known else (None, None)),
            *(described.min, described.max),
            *((normalized.mean, normalized.std) if normalized else (None, None)),
        )
        rows.append([cell.algo, cell.env, *map(_exact, values)])
    return Table(AGGREGATED_COLUMNS, rows)


def environment_table(summary: Summary, algo: str) -> Table:
    """How one algorithm did on each environment."""
    ci = _percent(summary)
    columns = ["Environment", "Score (mean ± std)", f"Mean {ci} CI", "IQM"]
    if summary.references.is_normalized:
        columns.append("Normalized (mean ± std)")
    columns += ["N", "FPS", "Hours"]
    return Table(columns, [_environment_row(cell) for cell in summary.cells_of(algo)])


def aggregate_table(summary: Summary, algo: str) -> Table:
    """One algorithm over all environments."""
    rows = [
        [entry.metric, text.score(entry.value), text.bounds(entry.interval)]
        for entry in summary.aggregates[algo]
    ]
    return Table(["Metric", "Value", f"{_percent(summary)} CI"], rows)


def comparison_table(summary: Summary) -> Table:
    """All algorithms beside each other, the best mean of each environment in bold."""
    table = Table(["Environment", *summary.algos])
    for row, env in enumerate(summary.envs):
        cells = [summary.cell(algo, env) for algo in summary.algos]
        means = [cell.description.mean if cell is not None else float("-inf") for cell in cells]
        table.rows.append([env, *(_mean_and_std(cell) for cell in cells)])
        table.bold |= {(row, 1 + i) for i, mean in enumerate(means) if mean == max(means)}
    return table


def aggregate_comparison_table(summary: Summary) -> Table:
    """All algorithms over all environments, one row each."""
    metrics = [entry.metric for entry in summary.aggregates[summary.algos[0]]]
    rows = [[algo, *map(_with_bounds, summary.aggregates[algo])] for algo in summary.algos]
    return Table(["Algorithm", *metrics], rows)


def status_table(summary: Summary) -> Table:
    """How many runs are in each state, per algorithm and environment."""
    runs = summary.found.runs
    states = sorted({run.status for run in runs})
    keys = sorted({(run.algo, run.env) for run in runs})
    rows = [
        [algo, env, *(str(sum((r.algo, r.env, r.status) == (algo, env, s) for r in runs)) for s in states)]
        for algo, env in keys
    ]
    return Table(["Algorithm", "Environment", *states], rows)


def problem_table(runs: Sequence[Run]) -> Table:
    """Runs that count for nothing, and why."""
    rows = [
        [str(run.path), run.status, last_words(run) or "no score yet"] for run in runs if not run.is_scored
    ]
    return Table(["Run", "Status", "Reason"], rows)


def _environment_row(cell: Cell) -> list[str]:
    described = cell.description
    row = [cell.env, text.mean_and_std(described.mean, described.std), text.bounds(cell.interval)]
    row.append(text.score(described.iqm))
    if cell.normalized is not None:
        normalized = describe(cell.normalized)
        row.append(text.mean_and_std(normalized.mean, normalized.std))
    return [*row, str(described.n), text.count(cell.fps), text.hours(cell.train_seconds)]


def _with_bounds(entry: Aggregate) -> str:
    value = text.score(entry.value)
    return f"{value} {text.bounds(entry.interval)}" if entry.interval.is_known else value


def _mean_and_std(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return text.mean_and_std(cell.description.mean, cell.description.std)


def _run_cell(run: Run, column: str) -> str:
    return str(run.path) if column == "run_dir" else _exact(getattr(run, column))


def _exact(value: object) -> str:
    return "" if value is None else str(value)


def _percent(summary: Summary) -> str:
    return f"{100 * summary.options.bootstrap.ci:g}%"
