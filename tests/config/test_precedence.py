"""Default < family's default < saved cfg.json < typed; and what never comes from the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import cfg_path, save_cfg
from sample_factory.config.parsing import parse_args
from sample_factory.config.precedence import merge_with_saved, resolve

Parse = Callable[..., Config]


def save_values(cfg: Config, **values: Any) -> Path:
    path = cfg_path(cfg)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


# `rollout` has no family default; garden_* sets batch_size=512 instead of 1024.
@pytest.mark.parametrize(
    ("name", "typed", "saved", "winner"),
    [
        ("rollout", None, None, 32),
        ("batch_size", None, None, 512),
        ("rollout", None, 8, 8),
        ("batch_size", None, 64, 64),
        ("rollout", 16, None, 16),
        ("batch_size", 128, None, 128),
        ("rollout", 16, 8, 16),
        ("batch_size", 128, 64, 128),
        ("batch_size", 512, 64, 512),  # typing the family's default is still typing
        ("batch_size", 1024, 64, 1024),  # and so is typing the general default
    ],
)
def test_precedence(parse: Parse, name: str, typed: int | None, saved: int | None, winner: int):
    cfg = parse(*([] if typed is None else [f"--{name}={typed}"]))
    assert merge_with_saved(cfg, {} if saved is None else {name: saved})[name] == winner


def test_setting_that_is_newer_than_the_file_gets_its_default(parse: Parse):
    assert merge_with_saved(parse(), {"rollout": 8}).optimizer == "adam"


def test_value_that_only_the_file_knows_is_kept(parse: Parse):
    assert merge_with_saved(parse(), {"wandb_unique_id": "x"}).wandb_unique_id == "x"


def test_saved_false_and_zero_and_none_count(parse: Parse):
    merged = merge_with_saved(parse(), {"use_rnn": False, "stats_avg": 0, "wandb_project": None})
    assert (merged.use_rnn, merged.stats_avg, merged.wandb_project) == (False, 0, None)


def test_merging_leaves_its_inputs_alone(parse: Parse):
    cfg, saved = parse(), {"wandb_tags": ["old"]}
    merge_with_saved(cfg, saved).wandb_tags.append("new")
    assert cfg.wandb_tags == [] and saved == {"wandb_tags": ["old"]}


def test_copied_experiment_is_used_where_it_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    saved = {"train_dir": "/elsewhere", "experiment": "old_name", "experiments_root": "old_root"}
    merged = merge_with_saved(parse_args(["--env=garden_small"]), saved)
    assert experiment_dir(merged) == tmp_path / "train_dir" / "default_experiment"


def test_overwriting_once_does_not_overwrite_the_next_time(parse: Parse):
    assert merge_with_saved(parse(), {"restart_behavior": "overwrite"}).restart_behavior == "resume"


def test_command_line_and_commit_are_those_of_this_run(parse: Parse):
    cfg = parse("--seed=1")
    saved = {"command_line": "old", "cli_args": {"seed": 2}, "git_hash": "old", "git_repo_name": "old"}
    merged = merge_with_saved(cfg, saved)
    assert merged.command_line == cfg.command_line and merged.cli_args == cfg.cli_args
    assert (merged.git_hash, merged.git_repo_name) == (cfg.git_hash, cfg.git_repo_name)


def test_automatic_recurrence_follows_the_saved_rollout(parse: Parse):
    assert merge_with_saved(parse("--recurrence=-1"), {"rollout": 8}).recurrence == 8


def test_new_experiment_starts_from_what_was_parsed(parse: Parse):
    cfg = parse()
    assert resolve(cfg) == cfg


def test_existing_experiment_is_resumed_with_its_saved_values(parse: Parse):
    save_cfg(parse("--rollout=8", "--recurrence=8", "--num_roses=3"))
    resumed = resolve(parse("--num_roses=4"))
    assert (resumed.rollout, resumed.num_roses) == (8, 4)


@pytest.mark.parametrize("behavior", ["restart", "overwrite"])
def test_starting_afresh_ignores_saved_values(parse: Parse, behavior: str):
    save_cfg(parse("--rollout=8"))
    assert resolve(parse(f"--restart_behavior={behavior}")).rollout == 32


def test_starting_afresh_does_not_need_a_readable_file(parse: Parse):
    save_values(parse()).write_text("{", encoding="utf-8")
    assert resolve(parse("--restart_behavior=restart")).rollout == 32


def test_evaluation_uses_saved_values_rather_than_defaults_of_its_own_flags(parse: Parse):
    save_values(parse(), fps=12, record_to=None)
    cfg = resolve(parse(evaluation=True), evaluation=True)
    assert (cfg.fps, cfg.record_to) == (12, None)


def test_evaluation_reads_the_file_whatever_the_restart_behavior(parse: Parse):
    save_values(parse(), rollout=8)
    assert resolve(parse("--restart_behavior=overwrite", evaluation=True), evaluation=True).rollout == 8


def test_evaluation_of_nothing_names_the_flags_and_the_nearest_experiment(parse: Parse, tmp_path: Path):
    save_cfg(parse("--experiment=roses_1"))
    with pytest.raises(ConfigError) as error:
        resolve(parse("--experiment=rose_1", evaluation=True), evaluation=True)
    assert "--experiment=rose_1" in str(error.value) and f"--train_dir={tmp_path}" in str(error.value)
    assert "did you mean --experiment=roses_1?" in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "null", "\x00\x01", '{"a": '])
def test_damaged_file_is_named(parse: Parse, content: str):
    path = save_values(parse())
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="is damaged") as error:
        resolve(parse())
    assert str(path) in str(error.value)


def test_file_that_is_not_text_is_named(parse: Parse):
    path = save_values(parse())
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is damaged"):
        resolve(parse())


def test_unreadable_file_is_named(parse: Parse):
    path = cfg_path(parse())
    path.mkdir(parents=True)  # a directory can't be read as a file, not even by root
    with pytest.raises(ConfigError, match="can't be read") as error:
        resolve(parse())
    assert str(path) in str(error.value)
