"""v1's Python interface: RunDescription, Experiment, ParamGrid, ParamList."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.jobs import plan_jobs
from sample_factory.runner.run import runner_argparser
from sample_factory.runner.run_description import Experiment, ParamGrid, ParamList, RunDescription
from sample_factory.runner.run_processes import run
from sample_factory.runner.runs.doom_basic_envs import RUN_DESCRIPTION

TAIL = (
    "--seed=0 --env=doom_my_way_home --experiment=00_basic_envs_fs4_see_0_env_doom_my_way_home "
    "--train_dir=./train_dir --experiments_root=doom_basic_envs_appo/basic_envs_fs4_"
)


def test_six_envs_with_ten_seeds_are_sixty_experiments_with_v1_names() -> None:
    names = [name for _, name, _, _ in RUN_DESCRIPTION.generate_experiments("./train_dir")]
    assert len(names) == 60
    assert names[0] == "00_basic_envs_fs4_see_0_env_doom_my_way_home"
    assert names[6] == "06_basic_envs_fs4_see_1111_env_doom_my_way_home"
    assert names[59] == "59_basic_envs_fs4_see_9999_env_doom_health_gathering_supreme"


def test_a_command_ends_in_parameters_name_and_directories() -> None:
    command = next(RUN_DESCRIPTION.generate_experiments("./train_dir"))[0]
    assert command.startswith(
        "python -m sample_factory.algorithms.appo.train_appo --train_for_env_steps=500000000"
    )
    assert command.endswith(" --wide_aspect_ratio=False " + TAIL)


def test_the_folder_of_a_group_ends_in_an_underscore_and_the_suffix() -> None:
    description = RunDescription("run", [Experiment("base", "true")])
    assert next(description.generate_experiments("t"))[2] == "run/base_"
    description.experiment_suffix = "v2"
    assert next(description.generate_experiments("t"))[2] == "run/base_v2"


def test_the_index_starts_again_for_each_experiment() -> None:
    params = ParamList([{"a": 1}, {"a": 2}])
    description = RunDescription(
        "run",
        [
            Experiment("x", "true", params.generate_params(False)),
            Experiment("y", "true", params.generate_params(False)),
        ],
    )
    names = [name for _, name, _, _ in description.generate_experiments("t")]
    assert names == ["00_x_a_1", "01_x_a_2", "00_y_a_1", "01_y_a_2"]


def test_an_experiment_gives_commands_with_names() -> None:
    experiment = Experiment(
        "test", "python super_rl.py", ParamGrid([("p1", [3.14, 2.71])]).generate_params(False)
    )
    pairs = list(experiment.generate_experiments("--experiment", True, "--"))
    assert pairs[1] == ("python super_rl.py --p1=2.71 --experiment=01_test_p1_2.71", "01_test_p1_2.71")


def test_without_customised_names_the_base_is_the_name() -> None:
    description = RunDescription(
        "run", [Experiment("x", "true", [{"a": 1}])], customize_experiment_name=False
    )
    assert next(description.generate_experiments("t"))[1] == "x"


def test_other_programs_get_one_directory_which_is_created(tmp_path: Path) -> None:
    description = RunDescription(
        "run", [Experiment("x", "true")], experiment_dirs_sf_format=False, experiment_dir_arg_name="--out"
    )
    command = next(description.generate_experiments(str(tmp_path)))[0]
    assert command.endswith(f"--experiment=00_x --out={tmp_path}/run/x_")
    assert (tmp_path / "run" / "x_").is_dir()


def test_parameters_of_hydra_have_no_dashes() -> None:
    description = RunDescription("run", [Experiment("x", "app", [{"task.lr": 0.1}])], param_prefix="")
    assert next(description.generate_experiments("t"))[0].startswith("app task.lr=0.1 --experiment=")


def test_values_with_spaces_and_quotes_reach_the_command_whole() -> None:
    value = 'it\'s a "test" of $HOME'
    description = RunDescription("run", [Experiment("x", "echo", [{"text": value}])])
    command = next(description.generate_experiments("t"))[0]
    assert f"--text={value}" in shlex.split(command)


def test_a_list_is_typed_as_flags_take_it() -> None:
    description = RunDescription("run", [Experiment("x", "train", [{"wandb_tags": ["a", "b c"]}])])
    command = next(description.generate_experiments("t"))[0]
    assert command.startswith("train --wandb_tags a 'b c' --experiment=")


def test_variables_belong_to_their_experiment() -> None:
    description = RunDescription("run", [Experiment("x", "a", env_vars={"N": 1}), Experiment("y", "b")])
    assert [variables for *_, variables in description.generate_experiments("t")] == [{"N": "1"}, {}]


def test_two_experiments_with_one_directory_are_refused() -> None:
    description = RunDescription("run", [Experiment("x", "a"), Experiment("x", "b")])
    with pytest.raises(RunnerError, match="would write to run/x_/00_x"):
        plan_jobs(description, "t")


def test_jobs_of_other_programs_may_share_a_name_and_still_have_ids(tmp_path: Path) -> None:
    description = RunDescription(
        "run",
        [Experiment("x", "a", [{"p": 1}, {"p": 2}])],
        experiment_dirs_sf_format=False,
        customize_experiment_name=False,
    )
    assert [job.id for job in plan_jobs(description, str(tmp_path))] == ["x", "x-2"]


def test_a_name_too_long_for_a_file_is_refused() -> None:
    description = RunDescription("run", [Experiment("x" * 300, "a")])
    with pytest.raises(RunnerError, match="too long"):
        plan_jobs(description, "t")


def test_an_open_quote_in_a_command_is_an_error_that_says_so() -> None:
    with pytest.raises(RunnerError, match="close the quotes"):
        plan_jobs(RunDescription("run", [Experiment("x", "echo 'a")]), "t")


@pytest.mark.parametrize("sf_format", [True, False])
def test_v1s_own_use_of_the_python_interface_works(tmp_path: Path, sf_format: bool) -> None:
    params = ParamGrid([("p1", [3.14, 2.71]), ("p2", ["a", "b"]), ("p3", list(np.arange(2)))])
    experiments = [
        Experiment("test_echo1", "echo", params.generate_params(randomize=True)),
        Experiment("test_echo2", "echo", params.generate_params(randomize=False)),
    ]
    description = RunDescription(
        "__test_run__",
        experiments=experiments,
        experiment_arg_name="--experiment_tst",
        experiment_dir_arg_name="--dir",
        experiment_dirs_sf_format=sf_format,
    )
    args = runner_argparser().parse_args([])
    args.max_parallel = 8
    args.pause_between = 0
    args.train_dir = str(tmp_path)
    assert run(description, args) == 0
    assert len(os.listdir(tmp_path / "__test_run__" / "logs")) == 16
