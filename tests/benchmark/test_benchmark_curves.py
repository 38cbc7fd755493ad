"""Learning curves: reading, resumed runs, alignment, export."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from sample_factory.benchmark.commands import main
from sample_factory.benchmark.curves import Curve, align, last_value, read_curve, smoothed
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.statistics.bootstrap import Bootstrap
from sample_factory.monitoring.event_file import EventFile
from tests.benchmark.run_folders import write_curve, write_run, write_zoo_run


def curve(steps: list[float], values: list[float]) -> Curve:
    return Curve(np.array(steps), np.array(steps), np.array(values))


def test_a_curve_has_steps_seconds_and_values(tmp_path: Path) -> None:
    write_curve(tmp_path, [(0, 100.0, 1.0), (50, 130.0, 2.0)])
    found = read_curve(tmp_path)
    assert found is not None
    assert (found.env_steps.tolist(), found.seconds.tolist(), found.values.tolist()) == (
        [0.0, 50.0],
        [0.0, 30.0],
        [1.0, 2.0],
    )


def test_frames_repeated_after_a_resume_are_taken_from_the_later_attempt(tmp_path: Path) -> None:
    write_curve(
        tmp_path, [(0, 0.0, 1.0), (100, 10.0, 2.0), (200, 20.0, 3.0), (150, 30.0, 9.0), (250, 40.0, 4.0)]
    )
    found = read_curve(tmp_path)
    assert found is not None
    assert found.env_steps.tolist() == [0.0, 100.0, 150.0, 250.0]
    assert found.values.tolist() == [1.0, 2.0, 9.0, 4.0]


def test_a_night_between_two_attempts_is_no_training_time(tmp_path: Path) -> None:
    write_curve(tmp_path, [(0, 0.0, 1.0), (10, 60.0, 2.0), (20, 36_060.0, 3.0), (30, 36_120.0, 4.0)])
    found = read_curve(tmp_path)
    assert found is not None
    assert found.seconds.tolist() == [0.0, 60.0, 60.0, 120.0]


def test_a_directory_without_metrics_has_no_curve(tmp_path: Path) -> None:
    assert read_curve(tmp_path) is None
    assert last_value(tmp_path) is None


def test_curves_of_v1_come_from_tensorboard_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    file = EventFile(tmp_path / ".summary" / "0", 0.0)
    file.add_scalars({"0_aux/avg_reward": 1.0}, 100, 10.0)
    file.add_scalars({"0_aux/avg_reward": 3.0}, 200, 20.0)
    file.flush()
    file.close()
    found = read_curve(tmp_path)
    assert found is not None
    assert (found.env_steps.tolist(), found.values.tolist()) == ([100.0, 200.0], [1.0, 3.0])


def test_seeds_are_interpolated_on_their_common_range() -> None:
    aligned = align([curve([0, 10], [0, 10]), curve([5, 20], [50, 200])])
    assert (aligned.x[0], aligned.x[-1]) == (5.0, 10.0)
    assert aligned.values[:, -1] == pytest.approx([10.0, 100.0])
    assert aligned.mean[0] == pytest.approx((5.0 + 50.0) / 2)


def test_seeds_without_a_common_range_are_an_error() -> None:
    with pytest.raises(BenchmarkError, match="no common range"):
        align([curve([0, 1], [0, 0]), curve([2, 3], [0, 0])])


def test_the_iqm_over_seeds_ignores_an_outlier() -> None:
    aligned = align([curve([0, 1], [v, v]) for v in (1.0, 2.0, 3.0, 1000.0)])
    assert aligned.iqm[0] == 2.5


def test_the_band_resamples_whole_curves() -> None:
    aligned = align([curve([0, 1], [0.0, 0.0]), curve([0, 1], [1.0, 1.0])])
    bounds = aligned.interval(Bootstrap(reps=200))
    assert bounds is not None
    low, high = bounds
    assert np.ptp(low) == 0.0 and low[0] == 0.0 and high[0] == 1.0


def test_one_seed_has_no_band() -> None:
    assert align([curve([0, 1], [0.0, 1.0])]).interval(Bootstrap()) is None


def test_smoothing_averages_what_came_before() -> None:
    assert smoothed(np.array([1.0, 3.0, 5.0, 7.0]), 2).tolist() == [1.0, 2.0, 4.0, 6.0]


def export(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, str]]:
    assert main(["export", *map(str, arguments)]) == ExitCode.OK
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_export_writes_every_point(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_curve(write_run(tmp_path / "a", seed=3), [(0, 0.0, 1.0), (50, 5.0, 2.5)])
    rows = export(capsys, tmp_path)
    assert [(row["seed"], row["env_steps"], row["seconds"], row["value"]) for row in rows] == [
        ("3", "0", "0.000", "1.0"),
        ("3", "50", "5.000", "2.5"),
    ]


def test_export_brings_seeds_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, value in enumerate((1.0, 3.0)):
        write_curve(write_run(tmp_path / str(seed), seed=seed), [(0, 0.0, value), (10, 1.0, value)])
    rows = export(capsys, tmp_path, "--align")
    assert (rows[0]["n"], rows[0]["mean"], rows[-1]["env_steps"]) == ("2", "2.0", "10.000")


def test_export_reads_the_zoo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_zoo_run(tmp_path / "ppo" / "CartPole-v1_1", [10.0, 20.0])
    assert [row["value"] for row in export(capsys, tmp_path)] == ["0.0", "15.0"]


def test_export_as_json_has_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_curve(write_run(tmp_path / "a"), [(7, 0.0, 1.5)])
    main(["export", str(tmp_path), "--format=json"])
    (point,) = json.loads(capsys.readouterr().out)
    assert (point["env_steps"], point["value"], point["env"]) == (7.0, 1.5, "doom_basic")


def test_export_in_sacreds_layout_can_be_read_by_imitations_rules(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", algo="APPO", env="seals/Ant-v1", score=4.0)
    output = tmp_path / "output"
    assert main(["export", str(tmp_path / "runs"), "--format=sacred", f"--output={output}"]) == ExitCode.OK
    (link,) = (output / "APPO" / "seals-Ant-v1").glob("*/sacred")
    assert not link.readlink().is_absolute()
    run = json.loads((link / "run.json").read_text())
    config = json.loads((link / "config.json").read_text())
    assert run["result"]["imit_stats"]["monitor_return_mean"] == 4.0
    assert config["environment"]["gym_id"] == "seals/Ant-v1"
    assert link.resolve() == (output / "sacred" / "train_appo" / "1").resolve()


def test_exporting_again_updates_what_is_there(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    for _ in range(2):
        main(["export", str(tmp_path / "runs"), "--format=sacred", f"--output={tmp_path / 'out'}"])
    assert [path.name for path in (tmp_path / "out" / "sacred" / "train_appo").iterdir()] == ["1"]
