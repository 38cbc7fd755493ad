"""Descriptions in YAML, and MiloZero's flags."""

from __future__ import annotations

import os
import shlex

import pytest

from sample_factory.config.parsing import parse_args
from sample_factory.envs.registry import family_for
from sample_factory.runner.bundles import BUNDLES, bundle_envs
from sample_factory.runner.description_files import load_description
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.flags import parse_command_line
from sample_factory.runner.yaml_loading import Literal, parse_yaml
from tests.runner.launching import Project

OTHER = "cmd: main.py\n"  # another program than ours, so any setting goes


def experiments(project: Project, text: str, *flags: str) -> list[tuple[str, str]]:
    """Command and name of each experiment of a file."""
    project.write("task.yaml", text)
    args = parse_command_line(["--config=task.yaml", *flags])
    description, _ = load_description(args)
    return [(command, name) for command, name, _, _ in description.generate_experiments("t", makedirs=False)]


def names(project: Project, text: str, *flags: str) -> list[str]:
    return [name for _, name in experiments(project, text, *flags)]


def complaint(project: Project, text: str, *flags: str) -> str:
    with pytest.raises(RunnerError) as caught:
        experiments(project, text, *flags)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e7", 1e7),
        ("3e-4", 3e-4),
        ("5", 5),
        ("-2.5", -2.5),
        (".5", 0.5),
        ("010", 10),
        ("0x1F", 31),
        ("true", True),
        ("False", False),
        ("null", None),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2020-01-02", "2020-01-02"),
        ("1_000", "1_000"),
        ("v1", "v1"),
        ("-.inf", float("-inf")),
        ("'5'", "5"),
    ],
)
def test_scalars_are_what_people_mean(text: str, value: object) -> None:
    parsed = parse_yaml(text, "text")
    assert (parsed, type(parsed)) == (value, type(value))


def test_a_literal_list_is_one_value() -> None:
    assert isinstance(parse_yaml("!literal [1, 2]", "text"), Literal)


def test_a_key_that_is_written_twice_is_an_error_with_its_line() -> None:
    with pytest.raises(RunnerError, match="in line 1: 'a' is written twice"):
        parse_yaml("a: 1\nb: 2\na: 3\n", "text")


def test_environments_and_seeds_multiply_with_the_environment_first(project: Project) -> None:
    text = OTHER + "run_name: r\nenvs: [a, b]\nseeds: {num: 2, start: 5}\n"
    assert names(project, text) == [
        "00_r_env_a_see_5",
        "01_r_env_a_see_6",
        "02_r_env_b_see_5",
        "03_r_env_b_see_6",
    ]


def test_the_documented_example_expands_and_keeps_constants_out_of_names(project: Project) -> None:
    text = """
        run_name: doom_basic_envs_appo
        cmd: python -m sample_factory.algorithms.appo.train_appo
        params: {algo: APPO, train_for_env_steps: 5e8, use_rnn: true}
        env_bundle: doom_basic
        seeds: {num: 10, start: 0}
    """
    found = experiments(project, text)
    assert len(found) == 60
    command, name = found[0]
    assert name == "00_doom_basic_envs_appo_env_doom_my_way_home_see_0"
    assert "--train_for_env_steps=500000000 " in command


def test_grid_paired_and_per_environment_values(project: Project) -> None:
    text = OTHER + (
        "envs: [a, b]\ngrid: {rollout: [32, 64]}\n"
        "paired: [{use_rnn: false, recurrence: 1}, {use_rnn: true, recurrence: 32}]\n"
        "per_env: {b: {gamma: 0.995}}\n"
    )
    found = experiments(project, text)
    assert len(found) == 8
    assert found[0][0].startswith("main.py --use_rnn=False --recurrence=1 --rollout=32 --env=a --experiment")
    assert [("--gamma=0.995" in command) for command, _ in found] == [False, True] * 4


def test_a_flat_file_holds_parameters(project: Project) -> None:
    command, name = experiments(project, OTHER + "lr: 3e-4\nenv: Hopper\n")[0]
    assert command.startswith("main.py --lr=0.0003 --env=Hopper --experiment=00_task")
    assert name == "00_task"


def test_a_list_in_a_flat_file_without_sweep_names_the_key(project: Project) -> None:
    assert complaint(project, OTHER + "lr: [1, 2]\n") == (
        "'lr' is a list; pass --sweep to choose from it, or write !literal before it."
    )


def test_a_literal_list_is_passed_as_several_values(project: Project) -> None:
    command, _ = experiments(project, OTHER + "units: !literal [128, 64]\n")[0]
    assert command.startswith("main.py --units 128 64 --experiment")


def test_a_flag_that_takes_lists_gets_them_without_being_told(project: Project) -> None:
    command, _ = experiments(project, "env: doom_basic\nwandb_tags: [a, b]\n")[0]
    assert "--wandb_tags a b" in command


def test_a_sweep_makes_trials_that_all_environments_and_seeds_share(project: Project) -> None:
    text = OTHER + "lr: [1e-3, 1e-4, 1e-5]\nwidth: [64, 128, 256]\n"
    found = names(project, text, "--sweep", "--num_trials=4", "--num_seeds=3", "--envs", "a", "b")
    assert len(found) == 4 * 3 * 2
    assert len({name.split("_env_")[0].split("_", 1)[1] for name in found}) == 4


def test_a_sweep_smaller_than_its_trials_runs_everything_once_and_says_so(project: Project) -> None:
    project.write("task.yaml", OTHER + "lr: [1, 2]\n")
    description, notes = load_description(
        parse_command_line(["--config=task.yaml", "--sweep", "--num_trials=9"])
    )
    assert len(list(description.generate_experiments("t"))) == 2
    assert notes == ["the sweep has only 2 combinations; each runs once"]


def test_a_sweep_section_draws_from_ranges(project: Project) -> None:
    text = OTHER + "sweep: {lr: {low: 1e-5, high: 1e-2, log: true}}\n"
    found = experiments(project, text, "--num_trials=5")
    rates = [float(command.split("--lr=")[1].split()[0]) for command, _ in found]
    assert len(set(rates)) == 5 and all(1e-5 <= rate <= 1e-2 for rate in rates)


def test_a_gridded_sweep_takes_every_combination(project: Project) -> None:
    assert len(names(project, OTHER + "sweep: {a: [1, 2], b: [1, 2, 3]}\n", "--sweep_mode=grid")) == 6


def test_no_sweep_leaves_the_sweep_section_out(project: Project) -> None:
    assert names(project, OTHER + "sweep: {lr: [1, 2]}\n", "--no-sweep") == ["00_task"]


def test_the_same_file_gives_the_same_draw_every_time(project: Project) -> None:
    text = OTHER + "sweep: {lr: {low: 0.0, high: 1.0}}\n"
    assert names(project, text) == names(project, text)


def test_an_unknown_setting_suggests_the_nearest(project: Project) -> None:
    text = "env: doom_basic\nlearning_rte: 1e-4\n"
    assert complaint(project, text) == (
        "'learning_rte' is not a setting of the trainer; did you mean learning_rate?"
    )


def test_a_value_of_the_wrong_type_is_an_error_before_anything_runs(project: Project) -> None:
    assert "rollout" in complaint(project, "env: doom_basic\nrollout: 5e8+0.5\n")
    assert "rollout" in complaint(project, "env: doom_basic\nrollout: 0.5\n")


def test_our_trainer_needs_an_environment(project: Project) -> None:
    assert "env_bundle: doom/basic" in complaint(project, "gamma: 0.9\n")


def test_minimal_commands_leave_out_what_is_default_anyway(project: Project) -> None:
    command, _ = experiments(project, "env: doom_basic\ngamma: 0.99\nrollout: 64\n")[0]
    assert "--gamma" not in command
    assert "--rollout=64" in command


def test_minimal_commands_keep_what_is_default_only_on_this_machine(project: Project) -> None:
    workers = os.cpu_count()
    command, _ = experiments(project, f"env: doom_basic\nnum_workers: {workers}\n")[0]
    assert f"--num_workers={workers}" in command


def test_full_commands_have_every_flag_once(project: Project) -> None:
    command, _ = experiments(project, "env: doom_basic\ngamma: 0.9\n", "--args_method=full")[0]
    assert command.count("--gamma=0.9") == 1
    assert "--rollout=32" in command
    assert command.count("--env=") == 1


def test_commands_can_name_a_file_with_the_parameters(project: Project) -> None:
    command, _ = experiments(project, OTHER + "env: a\nlr: 0.1\n", "--args_method=yaml")[0]
    path = command.split("--cfg_file=")[1].split()[0]
    assert parse_yaml((project.directory / path).read_text(), "file") == {"env": "a", "lr": 0.1}


def test_the_trainer_reads_the_file_that_its_command_names(project: Project) -> None:
    text = "env: gym_CartPole-v1\ngamma: 0.9\nlearning_rate: 3e-4\nwandb_tags: !literal [a, b]\n"
    command, _ = experiments(project, text, "--args_method=yaml", "--seeds", "5")[0]
    assert "--gamma" not in command
    cfg = parse_args(shlex.split(command)[3:])
    assert (cfg.env, cfg.seed, cfg.gamma, cfg.learning_rate) == ("gym_CartPole-v1", 5, 0.9, 0.0003)
    assert cfg.wandb_tags == ["a", "b"]


def test_the_command_line_wins_over_the_file(project: Project) -> None:
    text = OTHER + "lr: 1\nseeds: [7]\nenvs: [a]\n"
    command, name = experiments(project, text, "--set", "lr=2", "--seeds", "8", "--envs", "b")[0]
    assert name == "00_task_env_b_see_8"
    assert "--lr=2" in command


def test_set_reaches_into_sections(project: Project) -> None:
    assert len(names(project, OTHER, "--set", "grid.rollout=[1, 2, 3]")) == 3


def test_axes_multiply_and_keep_types(project: Project) -> None:
    found = experiments(project, OTHER, "--axis", "a=1,2.5,x")
    assert [command.split()[1] for command, _ in found] == ["--a=1", "--a=2.5", "--a=x"]


def test_demonstrations_are_an_axis_with_a_path_for_each_environment(project: Project) -> None:
    found = experiments(
        project, OTHER, "--envs", "Hopper", "--num_demos", "4", "16", "--demo_dir", "data/demos"
    )
    assert [name for _, name in found] == ["00_task_n.dem_4_env_Hopper", "01_task_n.dem_16_env_Hopper"]
    assert all("--expert_path=data/demos/Hopper" in command for command, _ in found)


def test_our_trainer_refuses_demonstrations(project: Project) -> None:
    assert "num_demos" in complaint(project, "env: doom_basic\n", "--num_demos", "4")


def test_the_same_experiment_twice_is_an_error(project: Project) -> None:
    assert "twice" in complaint(project, OTHER + "seeds: [1, 1]\n")


def test_pairs_with_different_keys_are_all_named(project: Project) -> None:
    assert names(project, OTHER + "paired: [{a: 1}, {b: 2}]\n") == ["00_task_a_1", "01_task_b_2"]


def test_an_empty_list_is_no_experiment(project: Project) -> None:
    assert "describes no experiment" in complaint(project, OTHER + "grid: {a: []}\n")


def test_an_override_for_an_environment_that_is_not_there_is_an_error(project: Project) -> None:
    assert "`per_env: c`" in complaint(project, OTHER + "envs: [a]\nper_env: {c: {x: 1}}\n")


def test_a_list_for_a_flag_that_takes_one_value_is_an_error(project: Project) -> None:
    assert "'rollout' takes one value" in complaint(project, "env: doom_basic\nrollout: !literal [1, 2]\n")


def test_the_runner_section_sets_flags_and_the_command_line_wins(project: Project) -> None:
    project.write(
        "task.yaml", "runner: {max_parallel: 12, caliber: long, slurm_array: true, pause_between: 0.5}\n"
    )
    args = parse_command_line(["--config=task.yaml", "--max_parallel=3"])
    assert (args.max_parallel, args.caliber, args.slurm_array, args.pause_between) == (3, "long", True, 0.5)


def test_an_unknown_flag_in_the_runner_section_is_an_error(project: Project) -> None:
    project.write("task.yaml", "runner: {max_paralel: 12}\n")
    with pytest.raises(RunnerError, match="max_paralel"):
        parse_command_line(["--config=task.yaml"])


def test_milozeros_command_line_works_as_documented(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("tasks/train_mujoco_ppo.yaml", "train_for_env_steps: 1e7\nlearning_rate: 1e-4\n")
    flags = (
        "--config tasks/train_mujoco_ppo.yaml --env_bundle debug --wandb_upgrade --no-sweep --clear "
        "--deploy_now "
        "--caliber short --num_workers 2 --num_seeds 3 --deployment tmux --conda_env pytorch "
        "--wandb_entity team --docker --docker_image docker_user/milozero:mujoco"
    )
    assert project.launch(*flags.split(), "--dry_run") == 0
    commands = capsys.readouterr().out.splitlines()
    assert len(commands) == 3
    assert "--env=mujoco_hopper --seed=0 --train_for_env_steps=10000000" in commands[0]
    assert "--num_workers=2" in commands[0]


def test_every_environment_of_every_bundle_belongs_to_a_family() -> None:
    for envs in BUNDLES.values():
        for env in envs:
            family_for(env).defaults_for(env)


def test_bundles_are_found_by_short_and_long_names() -> None:
    assert bundle_envs("basic") == bundle_envs("doom/basic") == bundle_envs("doom_basic")
    assert bundle_envs("mujoco/debug,mujoco/ant") == ["mujoco_hopper", "mujoco_ant"]


def test_an_ambiguous_bundle_lists_its_meanings() -> None:
    with pytest.raises(RunnerError, match="mujoco/glaceon, dmcontrol/glaceon"):
        bundle_envs("glaceon")


def test_an_unknown_bundle_suggests_one() -> None:
    with pytest.raises(RunnerError, match="try --env_bundle=doom/basic"):
        bundle_envs("doom/basik")


def test_flags_of_files_are_refused_with_a_module(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.launch(project.describe('"x", "true"'), "--num_seeds=3") == 2
    assert "--num_seeds belongs to --config" in capsys.readouterr().err


def test_one_description_is_needed(project: Project) -> None:
    assert project.launch() == 2
