"""`summary`: the document's CSV, every other format, unequal and failed runs, clean stdout."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from sample_factory.benchmark.commands import main
from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.run_record import RunStatus
from tests.benchmark.run_folders import write_curve, write_grid, write_imitation_run, write_run

GOLDEN_A = {("A", "small"): [1.0, 2.0, 3.0], ("A", "large"): [10.0, 20.0, 30.0]}


@pytest.fixture
def imitation(tmp_path: Path) -> Path:
    """The runs of the document's example, and one that failed."""
    root = tmp_path / "output" / "sacred"
    walker, swimmer = "seals/Walker2d-v1", "seals/Swimmer-v1"
    runs = [
        ("gail", walker, 2298.883520464286, 2502.8930135576925),
        ("gail", swimmer, 287.33667667857145, 295.40472964423077),
        ("airl", walker, 310.4065185178571, 2502.8930135576925),
    ]
    for number, (algo, env, score, expert) in enumerate(runs, start=1):
        folder = root / "train_adversarial" / str(number)
        write_imitation_run(folder, algo=algo, env=env, score=score, expert=expert)
    write_imitation_run(
        root / "train_adversarial" / "4", algo="gail", env=walker, score=None, expert=0, status="FAILED"
    )
    return root


def summary(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["summary", *map(str, arguments)]) == ExitCode.OK
    return capsys.readouterr().out


def test_imitations_folder_gives_the_documents_csv(
    imitation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summary(capsys, imitation, "--csv_style=imitation") == (
        "algo, env, score, expert_score\n"
        "airl, seals/Walker2d-v1, 310.4065185178571, 2502.8930135576925\n"
        "gail, seals/Swimmer-v1, 287.33667667857145, 295.40472964423077\n"
        "gail, seals/Walker2d-v1, 2298.883520464286, 2502.8930135576925\n"
    )


def test_the_default_csv_has_no_spaces(imitation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(summary(capsys, imitation))))
    assert rows[0] == {
        "algo": "airl",
        "env": "seals/Walker2d-v1",
        "score": "310.4065185178571",
        "expert_score": "2502.8930135576925",
    }


def test_remarks_go_to_stderr_and_stdout_holds_only_data(
    imitation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["summary", str(imitation)])
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 4
    assert "1 of 4 runs have no score" in captured.err


def test_unfinished_runs_can_be_listed(imitation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(capsys, imitation, "--include_unfinished", "--columns=all")
    assert text.splitlines()[-1].startswith("gail,seals/Walker2d-v1,,,0,FAILED")


def test_a_csv_of_ours_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all.csv"
    main(["summary", str(write_grid(tmp_path / "runs", GOLDEN_A)), "--columns=all", f"--output={path}"])
    assert summary(capsys, path).splitlines()[1:] == summary(capsys, tmp_path / "runs").splitlines()[1:]


def test_aggregated_csv_has_the_golden_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(capsys, write_grid(tmp_path, GOLDEN_A), "--aggregate")
    large, small = csv.DictReader(io.StringIO(text))
    assert (large["n"], large["mean"], small["mean"], small["median"]) == ("3", "20.0", "2.0", "2.0")
    assert float(small["std_pop"]) == pytest.approx(0.816497, abs=1e-6)


def test_json_holds_raw_scores_and_aggregates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baselines = tmp_path / "b.json"
    ends = {"random": 0.0, "expert": 20.0}
    baselines.write_text(json.dumps({"small": ends, "large": ends}))
    text = summary(capsys, write_grid(tmp_path / "r", GOLDEN_A), "--format=json", f"--baselines={baselines}")
    content = json.loads(text)
    values = {entry["metric"]: entry["value"] for entry in content["aggregates"]["A"]}
    # The golden numbers of the scores, divided by 20.
    assert values == pytest.approx(
        {"Mean": 11 / 20, "Median": 11 / 20, "IQM": 8.75 / 20, "Optimality gap": 0.533333}, abs=5e-7
    )
    assert content["cells"][1]["scores"] == [1.0, 2.0, 3.0]
    assert content["normalization"]["references"]["small"] == {"low": 0.0, "high": 20.0, "source": "table"}


def test_markdown_prints_bounds_of_each_metric_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {("A", "e"): [0.0, 1.0, 2.0, 3.0, 10.0, 3.0, 2.0]}
    text = summary(capsys, write_grid(tmp_path, scores), "--format=markdown")
    rows = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| ")}
    for metric, value in (("Mean", 3.0), ("IQM", 2.2)):
        cells = rows[f"| {metric}"].strip("| ").split(" | ")
        low, high = (float(bound) for bound in cells[2].strip("()").split(", "))
        assert float(cells[1]) == pytest.approx(value)
        assert low < value < high


def test_markdown_lists_failed_runs_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_grid(tmp_path, {("A", "e"): [1.0, 2.0]})
    failed = write_run(tmp_path / "bad", algo="A", env="e", score=None, status=RunStatus.FAILED)
    (failed / "cout.txt").write_text("step 1\nCUDA out of memory\n")
    text = summary(capsys, tmp_path, "--format=markdown")
    assert "## Run status" in text
    assert "FAILED | CUDA out of memory" in text


def test_markdown_marks_the_best_algorithm_of_each_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = summary(
        capsys, write_grid(tmp_path, {("A", "e"): [1.0, 1.0], ("B", "e"): [2.0, 2.0]}), "--format=markdown"
    )
    assert "| e | 1.000 ± 0.000 | **2.000 ± 0.000** |" in text


def test_raw_scores_of_different_environments_are_not_averaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["summary", str(write_grid(tmp_path, GOLDEN_A)), "--format=markdown"])
    captured = capsys.readouterr()
    assert "| Metric | Value |" not in captured.out
    assert "--normalize=minmax" in captured.err


def test_unequal_numbers_of_runs_are_summarised_with_their_n(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {("A", "x"): [0.0, 1.0], ("A", "y"): [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]}
    content = json.loads(summary(capsys, write_grid(tmp_path, scores), "--format=json", "--normalize=minmax"))
    assert [cell["n"] for cell in content["cells"]] == [2, 6]


def test_truncating_keeps_the_lowest_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = {("A", "x"): [0.0, 1.0], ("A", "y"): [5.0, 6.0, 7.0]}
    text = summary(capsys, write_grid(tmp_path, scores), "--aggregate", "--unequal=truncate")
    assert [row["max"] for row in csv.DictReader(io.StringIO(text))] == ["1.0", "6.0"]


def test_a_single_run_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(capsys, write_grid(tmp_path, {("A", "x"): [1.0]}), "--format=markdown")
    assert "| x | 1.000 ± 0.000 | n/a |" in text


def test_few_runs_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(capsys, write_grid(tmp_path, {("A", "x"): [1.0, 2.0]}), "--format=markdown")
    assert "few runs: the interval is optimistic" in text


def test_the_same_bootstrap_seed_gives_the_same_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_grid(tmp_path, {("A", "x"): [1.0, 2.0, 4.0, 8.0, 9.0, 11.5]})
    first, second, third = (
        summary(capsys, root, "--aggregate", f"--bootstrap_seed={seed}", "--reps=300") for seed in (3, 3, 4)
    )
    assert first == second != third


def test_runs_with_the_same_seed_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("exp", "exp_old0001"):
        write_run(tmp_path / name, seed=3)
    main(["summary", str(tmp_path), "--aggregate"])
    assert "Several runs have the same seed: APPO on doom_basic" in capsys.readouterr().err


def test_latex_escapes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(capsys, write_grid(tmp_path, {("A_1", "doom_basic"): [1.0, 2.0]}), "--format=latex")
    assert r"doom\_basic & 1.500 $\pm$ 0.500 &" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2


def test_html_shows_names_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", algo="<script>alert(1)</script>", env="e", score=1.0)
    text = summary(capsys, tmp_path, "--format=html")
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_training_scores_can_come_from_another_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_run(tmp_path / "a", score=1.0)
    write_curve(directory, [(1, 0.0, 5.0)])
    text = summary(capsys, tmp_path, "--score=train", "--score_tag=0_aux/avg_reward")
    assert text.splitlines()[1] == "APPO,doom_basic,5.0,"


def test_nothing_found_is_exit_code_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(tmp_path)]) == ExitCode.NOTHING_FOUND
    assert capsys.readouterr().err.startswith("error: no runs found under")


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sumary"]) == ExitCode.USAGE
    assert "there is no command sumary" in capsys.readouterr().err
