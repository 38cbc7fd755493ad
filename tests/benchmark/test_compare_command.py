"""`compare`: orientation, the rules for names, unequal runs, the gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sample_factory.benchmark.commands import main
from sample_factory.benchmark.errors import ExitCode
from tests.benchmark.run_folders import write_grid

GOLDEN_A = {("A", "small"): [1.0, 2.0, 3.0], ("A", "large"): [10.0, 20.0, 30.0]}
GOLDEN_B = {("B", "small"): [2.0, 2.0, 4.0], ("B", "large"): [5.0, 15.0, 40.0]}
LOW = [1.0, 2.0, 3.0, 4.0, 5.0]


def compare_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert main(["compare", *map(str, arguments), "--format=json"]) == ExitCode.OK
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_a_candidate_better_in_every_run_scores_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidate = write_grid(tmp_path / "new", {("New", "e"): [score + 10 for score in LOW]})
    baseline = write_grid(tmp_path / "old", {("Old", "e"): LOW})
    assert main(["compare", str(candidate), str(baseline)]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "Probability of improvement of New over Old: 1.000 (95% CI 1.000, 1.000; 2,000 resamples)" in text
    assert "Verdict: likely better (interval above 0.5)" in text


def test_golden_numbers_come_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, GOLDEN_A | GOLDEN_B)
    content = compare_json(capsys, root, "--algo=A", "--baseline-algo=B")
    assert content["probability_of_improvement"] == pytest.approx(4 / 9)
    assert {env["env"]: env["p_value"] for env in content["envs"]} == pytest.approx(
        {"small": 0.642835, "large": 1.0}, abs=5e-7
    )


def test_the_baseline_defaults_to_the_same_folder_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_grid(tmp_path, {("A", "e"): LOW})
    content = compare_json(capsys, root)
    assert content["probability_of_improvement"] == 0.5
    assert content["warnings"] == ["candidate and baseline are the same runs."]


def test_the_same_algorithm_of_another_folder_is_its_natural_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_grid(tmp_path / "new", {("A", "e"): LOW})
    old = write_grid(tmp_path / "old", {("A", "e"): LOW, ("B", "e"): LOW})
    assert compare_json(capsys, new, old)["baseline"]["algo"] == "A"


def test_several_candidates_need_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, {("A", "e"): LOW, ("B", "e"): LOW})
    assert main(["compare", str(root)]) == ExitCode.USAGE
    assert "pass --algo with one of A, B" in capsys.readouterr().err


def test_several_baselines_need_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = write_grid(tmp_path / "new", {("C", "e"): LOW})
    old = write_grid(tmp_path / "old", {("A", "e"): LOW, ("B", "e"): LOW})
    assert main(["compare", str(new), str(old)]) == ExitCode.USAGE
    assert "pass --baseline_algo with one of A, B" in capsys.readouterr().err


def test_no_environment_in_common_is_exit_code_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_grid(tmp_path, {("A", "x"): LOW, ("B", "y"): LOW})
    assert main(["compare", str(root), "--algo=A", "--baseline_algo=B"]) == ExitCode.NOTHING_FOUND


def test_environments_of_one_side_only_are_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_grid(tmp_path, {("A", "x"): LOW, ("A", "y"): LOW, ("B", "x"): LOW})
    content = compare_json(capsys, root, "--algo=A", "--baseline_algo=B")
    assert [env["env"] for env in content["envs"]] == ["x"]
    assert "ran on y: left out" in content["warnings"][0]


def test_unequal_numbers_of_runs_are_all_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, {("A", "e"): [1.0, 2.0], ("B", "e"): [1.0, 3.0, 2.0]})
    content = compare_json(capsys, root, "--algo=A", "--baseline_algo=B")
    assert content["probability_of_improvement"] == pytest.approx(1 / 3)
    assert content["envs"][0]["runs"] == [2, 3]


def test_truncating_drops_the_highest_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, {("A", "e"): [1.0, 2.0], ("B", "e"): [0.0, 0.5, 99.0]})
    content = compare_json(capsys, root, "--algo=A", "--baseline_algo=B", "--unequal=truncate")
    assert content["probability_of_improvement"] == 1.0


@pytest.mark.parametrize(
    ("shift", "expected"), [(-10.0, ExitCode.GATE_FAILED), (0.0, ExitCode.OK), (10.0, ExitCode.OK)]
)
def test_the_gate_fails_only_for_a_regression_beyond_noise(
    tmp_path: Path, shift: float, expected: ExitCode
) -> None:
    new = write_grid(tmp_path / "new", {("A", "e"): [score + shift for score in LOW]})
    old = write_grid(tmp_path / "old", {("A", "e"): LOW})
    assert main(["compare", str(new), str(old), "--fail_below=0.5"]) == expected


def test_the_gate_refuses_to_judge_single_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, {("A", "e"): [1.0], ("B", "e"): [2.0]})
    arguments = ["compare", str(root), "--algo=A", "--baseline_algo=B", "--fail_below=0.5"]
    assert main(arguments) == ExitCode.USAGE
    assert "at least two runs" in capsys.readouterr().err


def test_an_undecided_comparison_says_how_many_seeds_would_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_grid(tmp_path, {("A", "e"): [1.0, 2.0, 4.0, 5.0], ("B", "e"): [1.5, 2.5, 3.0, 3.5]})
    main(["compare", str(root), "--algo=A", "--baseline_algo=B"])
    assert "more seeds per env would be needed" in capsys.readouterr().out


def test_the_difference_in_iqm_is_normalised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, {("A", "e"): [5.0, 10.0], ("B", "e"): [0.0, 5.0]})
    content = compare_json(capsys, root, "--algo=A", "--baseline_algo=B", "--normalize=minmax")
    assert content["iqm_difference"] == pytest.approx(0.5)


def test_only_some_environments_can_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, GOLDEN_A | GOLDEN_B)
    content = compare_json(capsys, root, "--algo=A", "--baseline_algo=B", "--envs", "small")
    assert content["probability_of_improvement"] == pytest.approx(3 / 9)


def test_the_matrix_shows_all_pairs_in_both_directions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    high = [score + 10 for score in LOW]
    root = write_grid(tmp_path, {("A", "e"): LOW, ("B", "e"): high})
    assert main(["compare", str(root), "--matrix", "--format=json"]) == ExitCode.OK
    content = json.loads(capsys.readouterr().out)
    assert content["A"]["B"].startswith("0.000") and content["B"]["A"].startswith("1.000")


def test_markdown_has_a_row_per_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path, GOLDEN_A | GOLDEN_B)
    main(["compare", str(root), "--algo=A", "--baseline_algo=B", "--format=markdown"])
    assert "| small | 0.333 | 0.643 | 1.000 | 2.000 | 2.667 | 3 / 3 |" in capsys.readouterr().out
