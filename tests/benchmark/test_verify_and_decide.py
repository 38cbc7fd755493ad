"""Reports that are checked against their raw scores, and benchmarks that stop when they are decided."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sample_factory.benchmark.commands import main, run_command
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.statistics.sequential import look_levels, permutation_p
from sample_factory.benchmark.suite_run import Answer, SuiteTools
from sample_factory.runner.run_description import RunDescription
from tests.benchmark.run_folders import write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for algo, env, seed in itertools.product(("A", "B"), ("one", "two"), range(3)):
        score = seed + 10.0 * (algo == "A") + 100.0 * (env == "two")
        write_run(folder / f"{algo}_{env}_{seed}", algo=algo, env=env, seed=seed, score=score)
    return folder


@pytest.fixture
def report(runs: Path, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    flags = ["--no_figures", "--normalize=minmax", "--reps=50", f"--output={path}"]
    assert main(["report", str(runs), *flags]) == 0
    return path


def test_a_true_report_agrees_with_its_raw_scores_and_the_runs(
    report: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(report), str(runs)]) == ExitCode.OK
    assert "agrees with its 12 raw scores and the runs on disk" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("honest", "forged", "named"),
    [
        ('"mean": 11.0', '"mean": 12.0', "cells[A on one].mean: the report says 12.0, the raw scores 11.0"),
        ('"metric": "IQM"', '"metric": "IQM2"', "aggregates.A[IQM2].metric"),
    ],
)
def test_a_number_that_was_changed_is_named(
    report: Path, honest: str, forged: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = report.read_text()
    assert honest in text
    report.write_text(text.replace(honest, forged))
    assert main(["verify", str(report)]) == ExitCode.GATE_FAILED
    assert named in capsys.readouterr().out


def test_a_run_that_says_something_else_is_named(
    report: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads((runs / "B_two_2" / "run.json").read_text())
    record["result"]["imit_stats"]["monitor_return_mean"] = record["result"]["score"] = 7.0
    (runs / "B_two_2" / "run.json").write_text(json.dumps(record))
    assert main(["verify", str(report), str(runs)]) == ExitCode.GATE_FAILED
    assert "B on two, seed 2: the report says 102.0, the run 7.0" in capsys.readouterr().out


def test_a_file_that_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.html").write_text("<html></html>")
    assert main(["verify", str(tmp_path / "page.html")]) == ExitCode.USAGE
    assert "holds no raw scores" in capsys.readouterr().err


def test_published_records_give_the_same_numbers_and_tell_no_places(
    report: Path, runs: Path, tmp_path: Path
) -> None:
    record = json.loads((runs / "A_one_0" / "run.json").read_text())
    record["experiment"]["base_dir"] = "/home/somebody"
    record["meta"]["argv"] = ["--gamma=0.9", "--train_dir=/home/somebody/td"]
    (runs / "A_one_0" / "run.json").write_text(json.dumps(record))
    published = tmp_path / "published"
    assert main(["export", str(runs), "--format=records", f"--output={published}"]) == 0
    assert main(["verify", str(report), str(published)]) == ExitCode.OK
    text = "".join(path.read_text() for path in published.rglob("*") if path.is_file())
    assert "somebody" not in text
    assert "n1" not in text
    assert json.loads((published / "A/one/seed_0/run.json").read_text())["meta"]["argv"] == ["--gamma=0.9"]


def test_the_looks_share_the_level() -> None:
    levels = look_levels(4)
    assert sum(levels) == pytest.approx(0.05)
    # Pocock's spending function at a quarter: 0.05 ln(1 + (e - 1) / 4).
    assert levels[0] == pytest.approx(0.017869, abs=1e-6)
    assert levels == sorted(levels, reverse=True)


def test_the_permutation_test_is_the_exact_one_on_a_single_task() -> None:
    # Of the 70 ways to choose 4 of 8 ranks, two are as extreme as complete separation.
    p = permutation_p([np.array([5.0, 6.0, 7.0, 8.0])], [np.array([1.0, 2.0, 3.0, 4.0])], permutations=20_000)
    assert p == pytest.approx(2 / 70, abs=0.005)


def test_equal_scores_decide_nothing() -> None:
    assert permutation_p([np.ones(5)], [np.ones(5)]) == 1.0


def test_false_decisions_over_all_looks_stay_below_the_level() -> None:
    generator = np.random.default_rng(3)
    wrong = 0
    for _ in range(150):
        x, y = generator.normal(size=(2, 1, 12))
        looks = zip((4, 8, 12), look_levels(3), strict=True)
        wrong += any(
            permutation_p(list(x[:, :n]), list(y[:, :n]), permutations=200) <= level for n, level in looks
        )
    assert wrong / 150 <= 0.07


class Trainer:
    """Stands in for the runner and the scoring: configuration `good` scores higher by `lead`."""

    def __init__(self, lead: float):
        self.lead = lead
        self.seeds: list[int] = []

    def launch(self, description: RunDescription, args: argparse.Namespace, _argv: Sequence[str]) -> int:
        for planned in description.expand(args.train_dir, makedirs=False):
            directory = Path(args.train_dir) / planned.root_dir / planned.name
            if directory.exists():
                continue
            seed, label = int(planned.params["seed"]), planned.env_vars["SF_ALGO_LABEL"]
            score = float(np.random.default_rng([seed, label == "good"]).normal())
            score += self.lead if label == "good" else 0.0
            write_run(directory, algo=label, env=str(planned.params["env"]), seed=seed, score=score)
            self.seeds.append(seed)
        return 0

    def tools(self) -> SuiteTools:
        return SuiteTools(self.launch, lambda _arguments, _variables: Answer(score=0.0))


SUITE = """
run_name: duel
params: {train_for_env_steps: 1e4}
envs: [gym_CartPole-v1]
seeds: {num: 5}
algos: {good: {gamma: 0.99}, bad: {gamma: 0.9}}
eval: {episodes: 0}
"""


@pytest.mark.parametrize(("lead", "num_seeds"), [(50.0, 5), (0.0, 15)])
def test_seeds_are_added_only_until_it_is_decided(
    tmp_path: Path, lead: float, num_seeds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "duel.yaml"
    path.write_text(SUITE)
    trainer = Trainer(lead)
    flags = [
        str(path),
        "--until_decided",
        "--max_seeds=15",
        f"--train_dir={tmp_path}/td",
        "--eval_episodes=1",
    ]
    assert run_command.main(flags, trainer.tools()) == 0
    assert sorted(trainer.seeds) == sorted([*range(num_seeds)] * 2)
    assert ("not decided" in capsys.readouterr().err.splitlines()[-2]) is (lead == 0.0)


def test_more_than_two_configurations_cannot_be_decided_between(tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(SUITE.replace("bad: {gamma: 0.9}", "bad: {gamma: 0.9}, worse: {gamma: 0.5}"))
    with pytest.raises(BenchmarkError, match="--algos good bad"):
        run_command.main([str(path), "--until_decided"], Trainer(0.0).tools())
