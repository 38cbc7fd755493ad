"""Learning curves as tables: every point of every run, or seeds brought together.

`export` writes them, also for experiments of v1, whose curves are in TensorBoard files.
"""

from __future__ import annotations

from collections.abc import Sequence

from sample_factory.benchmark.curves import align, read_curve
from sample_factory.benchmark.runs import Run
from sample_factory.benchmark.statistics.bootstrap import Bootstrap
from sample_factory.benchmark.summary import group_runs
from sample_factory.benchmark.tables import Table

POINT_COLUMNS = ("algo", "env", "seed", "run_dir", "tag", "env_steps", "seconds", "value")
SCORE_TAG_NAME = "score"


def point_table(runs: Sequence[Run], tags: Sequence[str | None]) -> Table:
    """One row per point; a tag of None is what runs are ranked by."""
    table = Table(POINT_COLUMNS)
    for run in runs:
        for tag in tags:
            curve = read_curve(run.path, tag)
            if curve is None:
                continue
            head = [run.algo, run.env, _text(run.seed), str(run.path), tag or SCORE_TAG_NAME]
            table.rows += [
                [*head, str(int(steps)), f"{seconds:.3f}", str(float(value))]
                for steps, seconds, value in zip(curve.env_steps, curve.seconds, curve.values, strict=True)
            ]
    return table


def aligned_table(runs: Sequence[Run], tags: Sequence[str | None], axis: str, settings: Bootstrap) -> Table:
    """One row per common point of the seeds of an algorithm on an environment."""
    table = Table(("algo", "env", "tag", axis, "n", "mean", "iqm", "ci_low", "ci_high"))
    for (algo, env), group in group_runs(runs).items():
        for tag in tags:
            curves = [curve for run in group if (curve := read_curve(run.path, tag)) is not None]
            if not curves:
                continue
            aligned = align(curves, axis)
            bounds = aligned.interval(settings)
            for i, x in enumerate(aligned.x):
                limits = ["", ""] if bounds is None else [str(float(bound[i])) for bound in bounds]
                middle = [str(float(aligned.mean[i])), str(float(aligned.iqm[i]))]
                table.rows.append(
                    [algo, env, tag or SCORE_TAG_NAME, f"{x:.3f}", str(len(curves)), *middle, *limits]
                )
    return table


def _text(value: object) -> str:
    return "" if value is None else str(value)
