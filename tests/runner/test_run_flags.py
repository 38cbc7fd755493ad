"""The launcher's command line."""

from __future__ import annotations

import pytest

from sample_factory.runner.flags import runner_argparser
from tests.runner.launching import Project

V1_DEFAULTS = {
    "train_dir": "./train_dir",
    "run": None,
    "runner": "processes",
    "pause_between": 10,
    "num_gpus": 1,
    "max_parallel": 4,
    "experiment_suffix": "",
    "experiments_per_gpu": -1,
    "slurm_gpus_per_job": 1,
    "slurm_cpus_per_gpu": 14,
    "slurm_print_only": False,
    "slurm_workdir": None,
    "slurm_partition": None,
    "slurm_sbatch_template": None,
    "ngc_job_template": None,
    "ngc_print_only": False,
}


def test_v1s_flags_have_v1s_defaults() -> None:
    args = vars(runner_argparser().parse_args([]))
    assert {name: args[name] for name in V1_DEFAULTS} == V1_DEFAULTS


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["--docker"], True),
        (["--no-docker"], False),
        (["--docker=True"], True),
        (["--docker=false"], False),
        (["--docker", "False"], False),
        (["--no-docker=False"], True),
        (["--docker", "--no-docker"], False),
    ],
)
def test_switches_are_typed_as_v1_or_as_milozero_does(typed: list[str], value: bool) -> None:
    assert runner_argparser().parse_args(typed).docker is value


@pytest.mark.parametrize("flag", ["--runner", "--backend", "--deployment"])
def test_the_place_has_three_names(flag: str) -> None:
    assert runner_argparser().parse_args([f"{flag}=slurm"]).runner == "slurm"


@pytest.mark.parametrize("wrong", ["--runner=moon", "--docker=maybe", "--no_such_flag"])
def test_a_wrong_flag_is_exit_code_two(wrong: str) -> None:
    with pytest.raises(SystemExit) as caught:
        runner_argparser().parse_args([wrong])
    assert caught.value.code == 2


def test_help_shows_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        runner_argparser().parse_args(["--help"])
    assert caught.value.code == 0
    assert "(default: 14)" in capsys.readouterr().out


def test_an_unknown_caliber_is_exit_code_two_before_anything_starts(project: Project) -> None:
    assert project.launch(project.describe('"x", "true"'), "--caliber=tiny") == 2
    assert not (project.run_dir() / "manifest.json").exists()
