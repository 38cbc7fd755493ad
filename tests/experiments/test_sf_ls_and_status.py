"""`sf ls` and `sf status` tell what experiments are, do, and died of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.verdict import Verdict
from sample_factory.benchmark.run_record import RunStatus
from sample_factory.experiments import ls, status
from sample_factory.experiments.reading import read, read_shares, read_verdict
from sample_factory.processes.directory_lock import DirectoryLock, lock_holder
from tests.experiments.experiment_folders import write_experiment, write_metrics


@pytest.fixture(scope="module")
def train_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("train_dir")
    write_experiment(root / "cartpole", scores=[10.0, 30.0, 20.0])
    write_experiment(root / "doom", env="doom_basic", scores=[1.0])
    trace = ["Traceback (most recent call last):", '  File "x.py"', "ValueError: no such map"]
    write_experiment(root / "broken", scores=[], status=RunStatus.FAILED, trace=trace)
    gone = write_experiment(root / "gone", status=RunStatus.RUNNING)
    (gone / ".lock").write_text("999999999\n")
    return root


def listed(train_dir: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> list[dict[str, object]]:
    assert ls.main([f"--train_dir={train_dir}", "--json", *flags]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def test_scores_come_from_the_metrics(train_dir: Path) -> None:
    experiment = read("cartpole", train_dir / "cartpole")
    assert (experiment.score, experiment.best_score) == (20.0, 30.0)
    assert (experiment.frames, experiment.fps, experiment.progress) == (3000, 300.0, 0.3)


def test_the_best_checkpoint_tells_the_best_score_of_a_long_run(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "long", scores=[5.0])
    (directory / "checkpoint_p0").mkdir()
    (directory / "checkpoint_p0" / "best_000000100_1000_reward_77.000.pth").touch()
    assert read("long", directory).best_score == 77.0


def test_a_population_shows_its_best_policy(tmp_path: Path) -> None:
    experiment = read("pbt", write_experiment(tmp_path / "pbt", policies=3, scores=[4.0]))
    assert (experiment.env_steps, experiment.score) == ((1000, 1000, 1000), 6.0)


def test_the_list_has_everything_in_columns(train_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ls.main([f"--train_dir={train_dir}"]) == 0
    captured = capsys.readouterr()
    row = next(line for line in captured.out.splitlines() if line.startswith("cartpole"))
    assert row.split()[:7] == ["cartpole", "gym_CartPole-v1", "COMPLETED", "3.0k", "20.00", "30.00", "300"]
    assert captured.err == "4 experiments: 2 COMPLETED, 1 FAILED, 1 STALE\n"


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--env=doom_*"], ["doom"]),
        (["--status", "failed"], ["broken"]),
        (["--sort=score"], ["cartpole", "gone", "doom", "broken"]),
        (["--sort=score", "--reverse", "--limit=1"], ["broken"]),
        (["c*", "d*"], ["cartpole", "doom"]),
    ],
)
def test_lists_are_filtered_and_sorted(
    train_dir: Path, capsys: pytest.CaptureFixture[str], flags: list[str], names: list[str]
) -> None:
    masks = [flag for flag in flags if not flag.startswith("-") and "*" in flag]
    others = [flag for flag in flags if flag not in masks]
    assert [row["name"] for row in listed(train_dir, capsys, *masks, *others)] == names


def test_a_wrong_duration_names_one_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ls.main(["--since=yesterday"])
    assert "--since=7d" in capsys.readouterr().err


def test_nothing_found_is_a_sentence_and_exit_code_3(
    train_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ls.main(["quake", f"--train_dir={train_dir}"]) == 3
    assert capsys.readouterr().err.startswith("error: No experiment matches quake")


def test_a_held_directory_is_running_whatever_its_record_says(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "now", scores=[1.0, 2.0])
    with DirectoryLock(directory, "--experiment"):
        experiment = read("now", directory)
        assert experiment.is_running
        assert lock_holder(directory) == experiment.pid
    assert not read("now", directory).is_running


def test_the_time_left_is_for_the_slowest_policy(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "now", scores=[1.0, 2.0], policies=2)
    write_metrics(directory, 4000, 1, {"0_aux/avg_reward": 1.0})
    with DirectoryLock(directory, "--experiment"):
        # 8000 of policy 0 are missing, and two policies share 200 frames per second.
        assert read("now", directory).left_sec == 80.0


def test_a_process_that_uses_the_number_again_does_not_hold_the_directory(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "old")
    (directory / ".lock").write_text("1\n")
    if Path("/proc/1/fd").exists():
        holder = lock_holder(directory)
        assert holder is None or holder == 1  # somebody else's process 1 can't be looked into
    (directory / ".lock").write_text("not a number")
    assert lock_holder(directory) is None


def test_status_tells_what_runs_and_what_failed(train_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = train_dir / "doom" / "sf_log.txt"
    sentences = ("the old thing", "inference (52% of sampling): a smaller network")
    verdicts = [Verdict(10.0, 52.0, 20.0, 10.0, 8.0, sentence) for sentence in sentences]
    log.write_text("".join(f"[t][1] {verdict.line()}\n" for verdict in verdicts))
    with DirectoryLock(train_dir / "doom", "--experiment"):
        assert status.main([f"--train_dir={train_dir}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[3:6] == ["1.0k", "10%", "100"]
    assert lines[1].split()[6:8] == ["1m", "30s"]
    assert lines[2] == "doom: limited by inference (52% of sampling): a smaller network"
    problems = "\n".join(lines[3:])
    assert "ago: ValueError: no such map" in problems
    assert "STALE gone" in problems
    assert "its process is gone" in problems


def test_status_of_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main([f"--train_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out == "Nothing is running.\n\n0 experiments: none\n"


def test_a_failure_without_a_record_is_found_in_the_log(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "broken", status=RunStatus.FAILED)
    (directory / "sf_log.txt").write_text(
        "[t][1] start\nTraceback (most recent call last)\n  x\nKeyError: 'a'\n"
    )
    assert read("broken", directory).problem == "KeyError: 'a'"


def test_a_damaged_record_is_listed_as_unreadable(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "torn")
    (directory / "run.json").write_text('{"status": ')
    experiment = read("torn", directory)
    assert (experiment.status, experiment.problem) == ("UNREADABLE", "run.json is not valid JSON")


def test_shares_and_verdict_of_a_new_experiment_are_empty(tmp_path: Path) -> None:
    directory = write_experiment(tmp_path / "new")
    assert (read_shares(directory), read_verdict(directory)) == ({}, "")
    write_metrics(directory, 1, 0, {"stats/environment_percent": 40.0, "stats/learner_percent": 9.0})
    assert read_shares(directory) == {
        "environment": 40.0,
        "inference": 0.0,
        "learner": 9.0,
        "waiting": 0.0,
        "other": 0.0,
    }


def test_only_the_ends_of_long_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_experiment(tmp_path / "long")
    line = json.dumps(
        {"time": 1.0, "env_steps": 9999, "policy": 0, "0_aux/avg_reward": 1.0, "0_aux/_fps": 5.0}
    )
    (directory / "metrics.jsonl").write_text((line + "\n") * 20_000)
    parsed = []
    original = json.loads
    monkeypatch.setattr(
        json, "loads", lambda text, **more: parsed.append(len(text)) or original(text, **more)
    )
    experiment = read("long", directory)
    assert (experiment.frames, experiment.score, experiment.best_score) == (9999, 1.0, None)
    assert sum(parsed) < 10_000


@pytest.mark.parametrize("verb", ["ls", "status", "plot", "dashboard.serve"])
def test_looking_needs_no_torch(verb: str) -> None:
    code = f"import sys, sample_factory.experiments.{verb}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
