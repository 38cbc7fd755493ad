"""Scalars in memory follow the file at the cost of what was added."""

from pathlib import Path

import numpy as np

from sample_factory.benchmark.curves import Curve, read_curve
from sample_factory.experiments.series import SCORE, Series, thinned
from tests.experiments.experiment_folders import write_experiment, write_metrics


def test_curves_are_those_the_benchmark_reads(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "run", scores=[3.0, 1.0, 2.0])
    write_metrics(directory, 2500, 0, {"0_aux/avg_reward": 9.0})  # resumed from an older checkpoint
    series = Series(directory)
    series.refresh()
    expected, found = read_curve(directory), series.curves(SCORE)[0]
    assert expected is not None
    assert found.env_steps.tolist() == expected.env_steps.tolist() == [1000.0, 2000.0, 2500.0]
    assert found.values.tolist() == expected.values.tolist() == [3.0, 1.0, 9.0]
    assert found.seconds.tolist() == expected.seconds.tolist()


def test_lines_that_are_added_appear_and_half_a_line_waits(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "run", scores=[1.0])
    series = Series(directory)
    series.refresh()
    path = directory / "metrics.jsonl"
    with path.open("a") as file:
        file.write('{"time": 2.0, "env_steps": 2000, "policy": 0, "train/loss"')
    series.refresh()
    assert series.tags() == ["0_aux/_fps", "0_aux/avg_reward"]
    with path.open("a") as file:
        file.write(": 0.5}\n")
    series.refresh()
    assert series.curves("train/loss")[0].values.tolist() == [0.5]


def test_a_file_that_was_replaced_is_read_afresh(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "run", scores=[1.0, 2.0, 3.0])
    series = Series(directory)
    series.refresh()
    (directory / "metrics.jsonl").unlink()
    write_metrics(directory, 7, 0, {"0_aux/avg_reward": 5.0})
    series.refresh()
    assert series.curves(SCORE)[0].values.tolist() == [5.0]


def test_thinning_keeps_means_and_the_last_point() -> None:
    x = np.arange(101.0)
    curve = thinned(Curve(x, x, 2 * x), 11)
    assert len(curve.values) == 11
    assert curve.values[0] == np.mean(2 * x[:10])
    assert (curve.env_steps[-1], curve.values[-1]) == (100.0, 200.0)
    assert np.all(np.diff(curve.env_steps) > 0)
