"""`sf plot` draws seeds of a configuration as one line with its spread."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sample_factory.benchmark.curve_panels import CurveOptions
from sample_factory.benchmark.curves import AlignedCurves
from sample_factory.benchmark.statistics.bootstrap import Bootstrap
from sample_factory.experiments import plot
from sample_factory.experiments.files import find_experiments
from sample_factory.experiments.grouping import SeedGroup, group_seeds
from sample_factory.experiments.reading import read_experiments
from tests.experiments.experiment_folders import write_experiment

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def train_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("train_dir")
    for seed in (1, 2):
        for rate in (0.1, 0.2):
            scores = [seed * rate * step for step in range(5)]
            write_experiment(
                root / f"lr{rate}_s{seed}", seed=seed, scores=scores, learning_rate=rate, stats_avg=seed
            )
    write_experiment(root / "pbt", env="doom_basic", policies=2)
    return root


def groups_of(train_dir: Path, *group_by: str) -> list[SeedGroup]:
    return group_seeds(read_experiments(find_experiments(train_dir)), group_by)


def test_seeds_of_a_configuration_are_one_group_named_by_what_differs(train_dir: Path) -> None:
    (train_dir / "unused").mkdir(exist_ok=True)
    cartpole = [group for group in groups_of(train_dir) if group.env == "gym_CartPole-v1"]
    assert [(group.label, [m.name for m in group.members]) for group in cartpole] == [
        ("learning_rate=0.1, num_policies=1", ["lr0.1_s1", "lr0.1_s2"]),
        ("learning_rate=0.2, num_policies=1", ["lr0.2_s1", "lr0.2_s2"]),
    ]


def test_groups_may_be_told_apart_by_named_settings(train_dir: Path) -> None:
    labels = [(group.label, len(group.members)) for group in groups_of(train_dir, "num_policies")]
    assert labels == [("num_policies=1", 4), ("num_policies=2", 1)]


def test_every_experiment_may_have_its_own_line(train_dir: Path) -> None:
    assert len(groups_of(train_dir, "none")) == 5


def test_the_mean_and_the_range_are_over_seeds(train_dir: Path) -> None:
    group = next(group for group in groups_of(train_dir) if "0.1" in group.label)
    curves = plot.group_curves(group, CurveOptions(), "all")
    assert curves is not None
    assert curves.mean[-1] == pytest.approx(0.1 * 4 * 1.5)
    low, high = curves.spread("range", Bootstrap()) or (None, None)
    assert (low[-1], high[-1]) == pytest.approx((0.4, 0.8))


def test_the_spread_may_be_the_standard_deviation() -> None:
    curves = AlignedCurves(np.array([0.0]), np.array([[1.0], [3.0]]))
    low, high = curves.spread("std", Bootstrap()) or (None, None)
    assert (low[0], high[0]) == (1.0, 3.0)
    assert curves.spread("none", Bootstrap()) is None


def test_policies_of_a_population_count_like_seeds(train_dir: Path) -> None:
    group = next(group for group in groups_of(train_dir) if group.env == "doom_basic")
    both, second = (plot.group_curves(group, CurveOptions(), policy) for policy in ("all", "1"))
    assert both is not None and second is not None
    assert (len(both.values), both.mean[-1], second.mean[-1]) == (2, 3.5, 4.0)


def test_wall_clock_leaves_the_values_and_changes_the_axis(train_dir: Path) -> None:
    group = next(group for group in groups_of(train_dir) if "0.1" in group.label)
    curves = plot.group_curves(group, CurveOptions(axis="train_seconds"), "all")
    assert curves is not None
    assert (curves.x[0], curves.x[-1]) == pytest.approx((0.0, 240.0))


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_are_written_in_the_format_of_their_name(
    train_dir: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / f"curves{suffix}"
    assert plot.main(["lr*", f"--train_dir={train_dir}", "--x=wall_clock", f"--output={output}"]) == 0
    assert capsys.readouterr().out == f"{output}\n"
    start = output.read_bytes()[:100]
    assert start.startswith(b"\x89PNG") if suffix == ".png" else b"<?xml" in start


def test_the_legend_names_the_groups_and_their_sizes(train_dir: Path, tmp_path: Path) -> None:
    output = tmp_path / "curves.svg"
    assert plot.main(["lr*", f"--train_dir={train_dir}", f"--output={output}", "--spread=seeds"]) == 0
    text = output.read_text()
    assert "<!-- learning_rate=0.1 (2) -->" in text
    assert "<!-- minutes -->" not in text


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--output=curves.jpg"], "must end in .png, .svg, .pdf"),
        (["--tag=train/nothing"], "has train/nothing yet"),
        (["--policy=best"], "write a number such as 0, or all"),
    ],
)
def test_mistakes_are_one_sentence(
    train_dir: Path, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plot.main([f"--train_dir={train_dir}", *flags]) in (2, 3)
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_missing_matplotlib_names_the_extra(
    train_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert plot.main([f"--train_dir={train_dir}"]) == 2
    assert "sample-factory-rebuilt[plot]" in capsys.readouterr().err
