"""From command lines to configurations: passes, precedence of families, help, mistakes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.config.config import Config
from sample_factory.config.parsing import arg_parser, default_cfg, parse_args
from sample_factory.envs.registry import register_env

Parse = Callable[..., Config]


def message(capsys: pytest.CaptureFixture[str], *argv: str, evaluation: bool = False) -> str:
    """What is shown for a command line that is refused with exit code 2."""
    with pytest.raises(SystemExit) as exit_info:
        parse_args(argv, evaluation=evaluation)
    assert exit_info.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def help_text(capsys: pytest.CaptureFixture[str], *argv: str, evaluation: bool = False) -> str:
    with pytest.raises(SystemExit) as exit_info:
        parse_args(argv, evaluation=evaluation)
    assert exit_info.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_flags_are_typed_with_equals_or_space(parse: Parse):
    cfg = parse("--rollout=64", "--recurrence", "64")
    assert (cfg.rollout, cfg.recurrence) == (64, 64)


def test_last_of_repeated_flags_wins(parse: Parse):
    assert parse("--ppo_epochs=1", "--ppo_epochs=4").ppo_epochs == 4


def test_flags_may_be_abbreviated(parse: Parse):
    cfg = parse("--learning=0.5")
    assert cfg.learning_rate == 0.5 and cfg.cli_args["learning_rate"] == 0.5


def test_aliases_do_not_make_an_abbreviation_ambiguous(parse: Parse):
    assert parse("--num_batches_per=4").num_batches_per_iteration == 4


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("num_epochs", "ppo_epochs"),
        ("num_batches_per_epoch", "num_batches_per_iteration"),
        ("num_batches_to_accumulate", "num_minibatches_to_accumulate"),
        ("rnn_size", "hidden_size"),
    ],
)
def test_v2_name_of_a_setting_works(parse: Parse, alias: str, name: str):
    cfg = parse(f"--{alias}=6")
    assert cfg[name] == 6 and cfg.cli_args[name] == 6 and alias not in cfg


def test_list_flag_without_values_is_an_empty_list(parse: Parse):
    assert parse("--wandb_tags").cli_args["wandb_tags"] == []


@pytest.mark.parametrize(("typed", "value"), [("true", True), ("TRUE", True), ("False", False)])
def test_bool_is_true_or_false_in_any_letter_case(parse: Parse, typed: str, value: bool):
    assert parse(f"--use_rnn={typed}").use_rnn is value


@pytest.mark.parametrize("typed", ["1", "0", "yes", "no", "", "t"])
def test_bool_is_nothing_else(capsys: pytest.CaptureFixture[str], typed: str):
    shown = message(capsys, "--env=garden_small", f"--use_rnn={typed}")
    assert shown == f"error: --use_rnn: {typed!r} is neither True nor False\n"


def test_int_flag_refuses_scientific_notation_and_says_what_to_write(capsys: pytest.CaptureFixture[str]):
    shown = message(capsys, "--env=garden_small", "--train_for_env_steps=1e7")
    assert shown == "error: --train_for_env_steps: '1e7' is not a whole number; write 10000000\n"


def test_wrong_choice_lists_the_right_ones(capsys: pytest.CaptureFixture[str]):
    assert message(capsys, "--env=garden_small", "--device=tpu") == (
        "error: --device: 'tpu' is not one of gpu, cpu\n"
    )


def test_misspelt_flags_get_one_suggestion_each(capsys: pytest.CaptureFixture[str]):
    assert message(capsys, "--env=garden_small", "--btch_size=5", "--num_roeses", "5") == (
        "error: --btch_size is not a flag; did you mean --batch_size?\n"
        "error: --num_roeses is not a flag; did you mean --num_roses?\n"
    )


def test_flag_like_nothing_points_to_help(capsys: pytest.CaptureFixture[str]):
    assert "--help" in message(capsys, "--env=garden_small", "--zzz=1")


def test_stray_word_is_refused(capsys: pytest.CaptureFixture[str]):
    assert "'stray' belongs to no flag" in message(capsys, "--env=garden_small", "stray")


def test_key_typed_as_a_flag_is_refused_without_repeating_it(capsys: pytest.CaptureFixture[str]):
    shown = message(capsys, "--env=garden_small", "--wandb_api_key=hunter2")
    assert shown.startswith("error: --wandb_api_key is not a flag") and "hunter2" not in shown


def test_evaluation_flag_in_training_is_explained(capsys: pytest.CaptureFixture[str]):
    assert "only in evaluation" in message(capsys, "--env=garden_small", "--policy_index=1")


def test_training_flag_with_dummy_sampler_is_explained(capsys: pytest.CaptureFixture[str]):
    shown = message(capsys, "--algo=DUMMY_SAMPLER", "--env=garden_small", "--seed=1")
    assert "does not exist with --algo=DUMMY_SAMPLER" in shown


def test_missing_env_and_unknown_flag_are_reported_together(capsys: pytest.CaptureFixture[str]):
    shown = message(capsys, "--btch_size=5")
    assert shown.count("\n") == 2 and "--env is missing" in shown and "--batch_size" in shown


def test_unknown_family_is_one_sentence(capsys: pytest.CaptureFixture[str]):
    shown = message(capsys, "--env=gardn_small")
    assert "--env=garden_small" in shown and shown.count("\n") == 1


def test_algo_defaults_to_appo(parse: Parse):
    assert parse().algo == "APPO"


def test_unknown_algo_is_refused(capsys: pytest.CaptureFixture[str]):
    assert "APPO, DUMMY_SAMPLER" in message(capsys, "--env=garden_small", "--algo=PPO2")


def test_help_needs_no_env(capsys: pytest.CaptureFixture[str]):
    shown = help_text(capsys, "--help")
    assert "--batch_size" in shown and "--num_roses" not in shown and "--policy_index" not in shown


def test_help_with_env_shows_flags_and_defaults_of_the_family(capsys: pytest.CaptureFixture[str]):
    shown = help_text(capsys, "--env=garden_small", "-h")
    assert "environments garden_*" in shown and "Roses in the garden. (default: 7)" in shown
    assert "a multiple of --rollout. (default: 512)" in shown


def test_help_of_evaluation_shows_its_flags(capsys: pytest.CaptureFixture[str]):
    assert "--policy_index" in help_text(capsys, "--help", evaluation=True)


def test_help_names_aliases(capsys: pytest.CaptureFixture[str]):
    assert "Also --num_epochs." in help_text(capsys, "--help")


def test_family_changes_defaults_also_by_alias(parse: Parse):
    cfg = parse()
    assert (cfg.batch_size, cfg.ppo_epochs, cfg.num_roses) == (512, 3, 7)
    assert "num_epochs" not in cfg


def test_family_default_that_is_no_flag_lands_in_the_configuration(parse: Parse):
    assert parse().fps == 35


def test_family_default_also_counts_for_evaluation_flags(parse: Parse):
    assert parse(evaluation=True).fps == 35


def test_typed_value_beats_the_family(parse: Parse):
    assert parse("--batch_size=64").batch_size == 64


def test_callbacks_written_for_v1_add_flags_and_change_defaults():
    def add(env: str, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--depth", default=3, type=int, help=f"Depth of {env}, in %(type)s.")

    def override(env: str, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(depth=5, hidden_size=32, mood="calm")

    register_env("pond_", lambda *_: None, add, override)
    cfg = parse_args(["--env=pond_small"])
    assert (cfg.depth, cfg.hidden_size, cfg.mood) == (5, 32, "calm")
    assert parse_args(["--env=pond_small", "--depth=9"]).cli_args["depth"] == 9


def test_script_may_add_flags_of_its_own_between_the_two_calls():
    argv = ["--env=garden_small", "--my_flag=4", "--my_list", "a", "--my_list", "b"]
    parser = arg_parser(argv)
    parser.add_argument("--my_flag", type=int, default=1)
    parser.add_argument("--my_list", action="append", default=[])
    cfg = parse_args(argv, parser=parser)
    assert (cfg.my_flag, cfg.cli_args["my_flag"], cfg.my_list) == (4, 4, ["a", "b"])


def test_arguments_of_the_program_are_used_when_none_are_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--env=garden_small", "--seed=3"])
    cfg = parse_args()
    assert (cfg.seed, cfg.command_line) == (3, "--env=garden_small --seed=3")


def test_cli_args_hold_only_what_was_typed(parse: Parse, tmp_path: Path):
    cfg = parse("--batch_size=512", "--use_rnn=False", "--seed=0")
    assert cfg.cli_args == {
        "env": "garden_small",
        "train_dir": str(tmp_path),
        "batch_size": 512,
        "use_rnn": False,
        "seed": 0,
    }


def test_switch_may_stand_alone_or_have_a_value(parse: Parse):
    assert parse("--no_render", evaluation=True).no_render is True
    assert parse("--no_render=False", evaluation=True).no_render is False
    assert parse(evaluation=True).no_render is False


@pytest.mark.parametrize(
    ("flags", "recurrence"),
    [
        (("--use_rnn=True", "--with_vtrace=False"), 48),
        (("--use_rnn=False", "--with_vtrace=True"), 48),
        (("--use_rnn=False", "--with_vtrace=False"), 1),
    ],
)
def test_automatic_recurrence_is_the_rollout_where_sequences_matter(
    parse: Parse, flags: tuple[str, ...], recurrence: int
):
    assert parse("--recurrence=-1", "--rollout=48", *flags).recurrence == recurrence


def test_each_parse_has_lists_of_its_own():
    default_cfg().wandb_tags.append("mine")
    assert default_cfg().wandb_tags == []


@given(value=st.floats(allow_nan=False))
def test_any_number_is_read_back_exactly(value: float):
    parsed, _ = arg_parser(["--env=mujoco_ant"]).parse_known_args([f"--learning_rate={value!r}"])
    assert parsed.learning_rate == value


@pytest.mark.parametrize("env", ["env", "mujoco_ant"])
def test_parsing_imports_neither_torch_nor_gymnasium(env: str):
    program = (
        "import sys\n"
        "from sample_factory.config import docs, experiment_files, validation\n"
        "from sample_factory.config.parsing import default_cfg\n"
        f"validation.check(default_cfg(env={env!r}))\n"
        "print(sorted({'torch', 'gymnasium', 'numpy'} & set(sys.modules)))\n"
    )
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root
    )
    assert result.stdout == "[]\n"
