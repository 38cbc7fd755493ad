"""Suites: what they run, how runs are scored, user files, and that a second start goes on."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from sample_factory.benchmark.commands import run_command
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.suite_files import find_suite, read_suite
from sample_factory.benchmark.suite_run import Answer, SuiteTools, announcement, needs_score
from sample_factory.benchmark.suites import SUITES, Suite
from sample_factory.config.parsing import parse_args
from sample_factory.runner.run_description import RunDescription
from tests.benchmark.run_folders import write_run

SMALL = """
run_name: mine
params: {train_for_env_steps: 1e4, use_rnn: false}
envs: [gym_CartPole-v1, gym_Acrobot-v1]
seeds: {num: 2, start: 5}
algos:
  fast: {learning_rate: 1e-3}
  slow: {learning_rate: 1e-5}
per_env: {gym_Acrobot-v1: {gamma: 0.9}}
baselines: {gym_CartPole-v1: {random: 22, expert: 475}}
eval: {episodes: 3}
expected_minutes: 30
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def commands(suite: Suite) -> list[list[str]]:
    return [
        shlex.split(command) for command, *_ in suite.description().generate_experiments("td", makedirs=False)
    ]


class Laboratory:
    """Stands in for the runner and the scoring processes: runs complete at once and score 1."""

    def __init__(self, broken: Sequence[str] = ()) -> None:
        self.launched: list[str] = []
        self.scored: list[str] = []
        self.broken = broken

    def launch(self, description: RunDescription, args: argparse.Namespace, argv: Sequence[str]) -> int:
        for _, name, root, env_vars in description.generate_experiments(args.train_dir, makedirs=False):
            directory = Path(args.train_dir) / root / name
            if not directory.exists():
                self.launched.append(name)
                write_run(directory, algo=env_vars["SF_ALGO_LABEL"], env=name.split("_env_")[1], score=1.0)
                (directory / "done").touch()
                os.utime(directory / "done", (0, 0))
        return 0

    def score(self, arguments: Sequence[str], variables: dict[str, str]) -> Answer:
        self.scored.append(arguments[0])
        if any(word in arguments[0] for word in self.broken):
            return Answer(error="error: no checkpoint")
        if not arguments[0].startswith("--random"):
            evaluation = Path(arguments[0]) / "eval" / "final" / "eval.json"
            evaluation.parent.mkdir(parents=True, exist_ok=True)
            evaluation.touch()
        return Answer(score=1.0)

    def run(self, *arguments: str | Path) -> int:
        return run_command.main([str(a) for a in arguments], SuiteTools(self.launch, self.score))


@pytest.mark.parametrize("name", sorted(SUITES))
def test_every_shipped_suite_has_commands_the_trainer_understands(name: str) -> None:
    suite = SUITES[name]
    first = commands(suite.restricted(envs=suite.envs[:1], seeds=suite.seeds[:1]))
    for command in first:
        parse_args(command[3:])


def test_doom_basic_is_the_documents_benchmark() -> None:
    suite = SUITES["doom_basic"]
    assert suite.num_runs == 60
    command = commands(suite)[0]
    assert command[3:5] == ["--seed=0", "--env=doom_my_way_home"]
    assert {
        "--train_for_env_steps=500000000",
        "--env_frameskip=4",
        "--num_workers=36",
        "--batch_size=2048",
    } <= set(command)


def test_a_users_file_multiplies_configurations_environments_and_seeds(small: Path) -> None:
    suite = read_suite(small)
    assert (suite.num_runs, list(suite.seeds), list(suite.algos)) == (8, [5, 6], ["fast", "slow"])


def test_numbers_of_a_file_become_what_the_flags_want(small: Path) -> None:
    command = commands(read_suite(small))[0]
    assert {"--train_for_env_steps=10000", "--learning_rate=0.001", "--use_rnn=False"} <= set(command)


def test_settings_of_one_environment_reach_only_that(small: Path) -> None:
    with_gamma = [command for command in commands(read_suite(small)) if "--gamma=0.9" in command]
    assert len(with_gamma) == 4
    assert all("--env=gym_Acrobot-v1" in command for command in with_gamma)


def test_a_label_reaches_the_record_through_the_environment(small: Path) -> None:
    labels = {
        env["SF_ALGO_LABEL"] for *_, env in read_suite(small).description().generate_experiments("td", False)
    }
    assert labels == {"fast", "slow"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: [x]", "no key env; did you mean envs"),
        ("seeds: [1]", "needs either"),
        ("envs: x", "must be a list"),
        ("{envs: [x], eval: {episode: 3}}", "no key episode; did you mean episodes"),
        ("{envs: [x], baselines: {x: 3}}", "baselines must be like"),
        ("{envs: [x], seeds: 3}", "seeds must be a list"),
        ("{envs: [x], algos: {A: 3}}", "algos must be like"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(BenchmarkError, match=message):
        read_suite(path)


def test_an_unknown_suite_suggests_one() -> None:
    with pytest.raises(BenchmarkError, match="did you mean classic"):
        find_suite("clasic")


def test_an_unknown_setting_is_found_before_anything_starts(small: Path) -> None:
    laboratory = Laboratory()
    with pytest.raises(BenchmarkError, match="did you mean gamma"):
        laboratory.run(small, "--set", "gama=0.9")
    assert laboratory.launched == []


def test_a_suite_trains_and_scores_every_run(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    laboratory = Laboratory()
    assert laboratory.run(small, f"--train_dir={tmp_path / 'td'}") == ExitCode.OK
    assert len(laboratory.launched) == len(laboratory.scored) == 8
    assert "gym_CartPole-v1  1.000 ± 0.000  1.000 ± 0.000" in capsys.readouterr().out


def test_starting_again_repeats_nothing(small: Path, tmp_path: Path) -> None:
    Laboratory().run(small, f"--train_dir={tmp_path / 'td'}")
    again = Laboratory()
    again.run(small, f"--train_dir={tmp_path / 'td'}")
    assert (again.launched, again.scored) == ([], [])


def test_a_run_trained_further_is_scored_again(small: Path, tmp_path: Path) -> None:
    Laboratory().run(small, f"--train_dir={tmp_path / 'td'}")
    directory = next(path.parent for path in (tmp_path / "td").rglob("done"))
    os.utime(directory / "done", (4e9, 4e9))
    assert needs_score(directory)


def test_a_run_that_is_not_complete_is_not_scored(tmp_path: Path) -> None:
    assert not needs_score(tmp_path)


def test_a_run_that_cannot_be_scored_is_exit_code_one(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    laboratory = Laboratory(broken=["fast_see_5_env_gym_CartPole"])
    assert laboratory.run(small, f"--train_dir={tmp_path / 'td'}") == ExitCode.RUN_FAILED
    assert "has no score: error: no checkpoint" in capsys.readouterr().err


def test_parts_of_a_suite_can_be_run(small: Path, tmp_path: Path) -> None:
    laboratory = Laboratory()
    laboratory.run(
        small, "--algos", "slow", "--envs", "gym_Acrobot-v1", "--seeds", "9", f"--train_dir={tmp_path / 'td'}"
    )
    assert laboratory.launched == ["00_slow_see_9_env_gym_Acrobot-v1"]


def test_baselines_are_kept_beside_the_runs_and_measured_once(small: Path, tmp_path: Path) -> None:
    td = tmp_path / "td"
    first, second = Laboratory(), Laboratory()
    for laboratory in (first, second):
        laboratory.run(small, f"--train_dir={td}", "--random_baseline")
    assert [word for word in first.scored if word.startswith("--random")] == [
        "--random=gym_CartPole-v1",
        "--random=gym_Acrobot-v1",
    ]
    assert second.scored == []
    assert '"random": 1.0' in (td / "mine" / "baselines.json").read_text()


def test_the_announcement_estimates_the_time(small: Path) -> None:
    assert announcement(read_suite(small), max_parallel=4).endswith(
        "8 runs, about 1.0 hours with --max_parallel=4"
    )


def test_a_suite_of_scripts_wraps_them(tmp_path: Path) -> None:
    path = tmp_path / "tabular.yaml"
    path.write_text("{envs: [CliffWalking-v1], seeds: [42], algos: {sarsa: {script: sarsa.py, alpha: 0.5}}}")
    (command,) = commands(read_suite(path))
    assert command[:5] == ["python", "-m", "sample_factory.benchmark", "wrap", str(tmp_path / "sarsa.py")]
    assert {"--env=CliffWalking-v1", "--seed=42", "--alpha=0.5", "--bench_out=td/tabular/sarsa_"} <= set(
        command
    )


def test_scripts_and_training_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "mixed.yaml"
    path.write_text("{envs: [gym_CartPole-v1], algos: {a: {script: a.py}, b: {}}}")
    with pytest.raises(BenchmarkError, match="two files"):
        read_suite(path).description()


def test_suites_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command.main(["--list_suites"]) == ExitCode.OK
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == set(SUITES)


def test_a_dry_run_prints_commands_and_writes_nothing(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command.main([str(small), "--dry_run", f"--train_dir={tmp_path / 'td'}"]) == ExitCode.OK
    assert len(capsys.readouterr().out.splitlines()) == 8
    assert not (tmp_path / "td").exists()
