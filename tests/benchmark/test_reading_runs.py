"""Finding and reading runs in every format, also damaged ones."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from sample_factory.benchmark import readers
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.run_record import RunStatus
from sample_factory.benchmark.runs import ReadOptions, find_runs, scored_runs
from tests.benchmark.run_folders import write_curve, write_imitation_run, write_run, write_zoo_run


def test_our_record_is_read_back(tmp_path: Path) -> None:
    write_run(tmp_path / "a", algo="APPO", env="doom_basic", seed=4, score=2.5)
    (run,) = find_runs([tmp_path]).runs
    assert (run.algo, run.env, run.seed, run.score, run.status) == ("APPO", "doom_basic", 4, 2.5, "COMPLETED")
    assert (run.env_steps, run.train_seconds, run.fps) == (1_000_000, 1800.0, 555.0)


def test_imitations_folder_is_read(tmp_path: Path) -> None:
    write_imitation_run(tmp_path / "1", algo="gail", env="seals/Ant-v1", score=10.0, expert=20.0)
    (run,) = find_runs([tmp_path]).runs
    assert (run.algo, run.env, run.score, run.expert_score) == ("gail", "seals/Ant-v1", 10.0, 20.0)


def test_failed_runs_of_imitation_without_a_result_are_listed(tmp_path: Path) -> None:
    write_imitation_run(tmp_path / "1", algo="gail", env="e", score=None, expert=0, status="FAILED")
    (run,) = find_runs([tmp_path]).runs
    assert (run.status, run.score) == ("FAILED", None)


def test_runs_from_several_machines_in_nested_folders_are_found(tmp_path: Path) -> None:
    for batch, number in (("first_batch", 1), ("first_batch", 2), ("second_batch", 1)):
        write_imitation_run(tmp_path / batch / str(number), algo="bc", env="e", score=1.0, expert=2.0)
    assert len(find_runs([tmp_path]).runs) == 3


def test_links_to_runs_are_not_counted_twice(tmp_path: Path) -> None:
    run = write_imitation_run(tmp_path / "sacred" / "1", algo="bc", env="e", score=1.0, expert=2.0)
    (tmp_path / "bc").mkdir()
    (tmp_path / "bc" / "sacred").symlink_to(run, target_is_directory=True)
    assert len(find_runs([tmp_path, tmp_path / "sacred"]).runs) == 1


def test_a_copied_run_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    found = find_runs([tmp_path])
    assert len(found.runs) == 1
    assert found.warnings == ["1 runs are copies of others and count once."]


def test_evaluations_of_the_zoo_are_read(tmp_path: Path) -> None:
    write_zoo_run(tmp_path / "ppo" / "CartPole-v1_3", final=[100.0, 300.0])
    (run,) = find_runs([tmp_path]).runs
    assert (run.algo, run.env, run.seed, run.score, run.env_steps) == ("ppo", "CartPole-v1", 3, 200.0, 2000)


def test_a_published_csv_is_read_with_and_without_spaces(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text("algo, env, score, expert_score\ngail, seals/Ant-v1, 1.5, 2.5\ngail,seals/Ant-v1,3.5,\n")
    runs = find_runs([path]).runs
    assert [(run.env, run.score, run.expert_score) for run in runs] == [
        ("seals/Ant-v1", 1.5, 2.5),
        ("seals/Ant-v1", 3.5, None),
    ]


def test_columns_of_a_csv_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text("method,task,return\nPPO,Ant,5\n")
    (run,) = find_runs([path], ReadOptions(algo_key="method", env_key="task", score_key="return")).runs
    assert (run.algo, run.env, run.score) == ("PPO", "Ant", 5.0)


def test_a_csv_without_scores_says_which_columns_it_has(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text("algo,env\nPPO,Ant\n")
    with pytest.raises(BenchmarkError, match="no column score; it has algo, env"):
        find_runs([path])


def test_a_score_that_is_no_number_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text("algo,env,score\nPPO,Ant,1\nPPO,Ant,high\n")
    with pytest.raises(BenchmarkError, match="line 3: 'high'"):
        find_runs([path])


def test_an_experiment_of_v1_is_read_from_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "cfg.json").write_text(json.dumps({"algo": "APPO", "env": "doom_basic", "seed": 1}))
    (tmp_path / "done").touch()
    write_curve(tmp_path, [(0, 0.0, 1.0), (100, 1.0, 7.0)])
    (run,) = find_runs([tmp_path]).runs
    assert (run.algo, run.status, run.score, run.score_source) == ("APPO", "COMPLETED", 7.0, "train")


def test_other_places_of_a_record_can_be_named(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "a", config={"model": {"kind": "big"}})
    content = json.loads((directory / "run.json").read_text())
    content["result"]["solved"] = 0.75
    (directory / "run.json").write_text(json.dumps(content))
    (run,) = find_runs([tmp_path], ReadOptions(score_key="result.solved", algo_key="model.kind")).runs
    assert (run.algo, run.score) == ("big", 0.75)


def test_settings_can_split_an_algorithm(tmp_path: Path) -> None:
    write_run(tmp_path / "a", config={"use_rnn": False})
    (run,) = find_runs([tmp_path], ReadOptions(group_by=("use_rnn",))).runs
    assert run.algo == "APPO use_rnn=False"


@pytest.mark.parametrize("content", ["{not json", "[1, 2]", ""])
def test_a_damaged_record_is_listed_as_unreadable(tmp_path: Path, content: str) -> None:
    write_run(tmp_path / "good")
    bad = write_run(tmp_path / "bad")
    (bad / "run.json").write_text(content)
    statuses = {run.path.name: run.status for run in find_runs([tmp_path]).runs}
    assert statuses == {"good": "COMPLETED", "bad": "UNREADABLE"}


def test_damaged_evaluations_of_the_zoo_are_listed_as_unreadable(tmp_path: Path) -> None:
    (write_zoo_run(tmp_path / "ppo" / "E_1", [1.0]) / "evaluations.npz").write_bytes(b"PK\x03\x04 torn")
    assert find_runs([tmp_path]).runs[0].status == "UNREADABLE"


def test_a_configuration_without_a_run_is_a_warning(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text("{}")
    found = find_runs([tmp_path])
    assert len(found.runs) == 1
    assert "no run.json: skipped" in found.warnings[0]


def test_an_empty_folder_is_nothing_found(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no runs found under") as error:
        find_runs([tmp_path])
    assert error.value.exit_code == ExitCode.NOTHING_FOUND


def test_a_running_record_without_a_sign_of_life_is_stale(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "a", score=None)
    content = json.loads((directory / "run.json").read_text())
    content |= {"status": "RUNNING", "heartbeat": "2020-01-01T00:00:00+00:00"}
    content["host"]["hostname"] = "another machine"
    (directory / "run.json").write_text(json.dumps(content))
    assert find_runs([tmp_path]).runs[0].status == "STALE"


def test_a_running_record_whose_process_lives_is_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write_run(tmp_path / "a", score=None)
    content = json.loads((directory / "run.json").read_text())
    content |= {"status": "RUNNING", "heartbeat": "2020-01-01T00:00:00+00:00"}
    content["host"]["hostname"] = socket.gethostname()
    (directory / "run.json").write_text(json.dumps(content))
    monkeypatch.setattr(readers, "process_is_alive", lambda pid: True)
    assert find_runs([tmp_path]).runs[0].status == "RUNNING"


def test_training_and_evaluation_scores_are_never_mixed(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "cfg.json").write_text(json.dumps({"algo": "APPO", "env": "doom_basic"}))
    (tmp_path / "b" / "done").touch()
    write_curve(tmp_path / "b", [(1, 0.0, 1.0)])
    found = find_runs([tmp_path])
    with pytest.raises(BenchmarkError, match="different sources; pass --score=train"):
        scored_runs(found)


def test_score_train_takes_the_last_training_episodes_everywhere(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "a", score=9.0)
    write_curve(directory, [(1, 0.0, 1.0), (2, 1.0, 4.0)])
    options = ReadOptions(score="train")
    (run,) = scored_runs(find_runs([tmp_path], options), options)
    assert (run.score, run.score_source) == (4.0, "train")


def test_runs_without_scores_say_in_which_states_they_are(tmp_path: Path) -> None:
    write_run(tmp_path / "a", score=None, status=RunStatus.FAILED)
    with pytest.raises(BenchmarkError, match=r"\(1 FAILED\)"):
        scored_runs(find_runs([tmp_path]))
