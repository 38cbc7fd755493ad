"""The experiment directory and cfg.json: where they are, that they are whole, what is never touched."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sample_factory.config import experiment_files
from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import (
    cfg_path,
    prepare_experiment_dir,
    read_cfg_file,
    save_cfg,
    save_git_diff,
    write_json,
)
from sample_factory.config.validation import validate

Parse = Callable[..., Config]


def test_directory_is_train_dir_root_and_name(parse: Parse, tmp_path: Path):
    cfg = parse("--experiment=one", "--experiments_root=run/group")
    assert experiment_dir(cfg) == tmp_path / "run" / "group" / "one"


def test_tilde_in_train_dir_is_expanded(parse: Parse, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/rose")
    assert experiment_dir(parse("--train_dir=~/runs", "--experiment=a")) == Path("/home/rose/runs/a")


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/tmp/x", "", ".", "./", "a\0b"])
def test_experiment_name_can_not_lead_out_of_the_train_directory(parse: Parse, name: str):
    cfg = parse(f"--experiment={name}")
    with pytest.raises(ConfigError, match="--experiment="):
        experiment_dir(cfg)
    assert any("--experiment=my_experiment" in problem for problem in validate(cfg))


@pytest.mark.parametrize("root", ["..", "/", "a/../..", "/tmp"])
def test_experiments_root_can_not_lead_out_of_the_train_directory(parse: Parse, root: str):
    with pytest.raises(ConfigError, match="--experiments_root="):
        prepare_experiment_dir(parse(f"--experiments_root={root}"))


def test_both_bad_names_are_reported_together(parse: Parse):
    with pytest.raises(ConfigError) as error:
        experiment_dir(parse("--experiment=..", "--experiments_root=.."))
    assert len(error.value.problems) == 2


def test_saved_configuration_is_read_back_equal(parse: Parse):
    cfg = parse("--wandb_tags", "a", "b", "--learning_rate=0.1", "--seed=3")
    saved = read_cfg_file(save_cfg(cfg))
    del cfg.garden_api_key  # named like a secret, so it is not in the file
    assert Config.from_dict(saved) == cfg


def test_saved_file_is_indented_by_two_and_holds_provenance(parse: Parse):
    path = save_cfg(parse("--seed=3"))
    assert path.name == "cfg.json" and '\n  "seed": 3,' in path.read_text(encoding="utf-8")
    saved = read_cfg_file(path)
    assert saved["cli_args"]["seed"] == 3 and "--seed=3" in saved["command_line"]
    assert saved["git_hash"] and saved["git_repo_name"]


def test_secrets_stay_in_memory(parse: Parse):
    cfg = parse("--garden_api_key=hunter2", "--num_roses=2")
    text = save_cfg(cfg).read_text(encoding="utf-8")
    assert cfg.garden_api_key == "hunter2"
    assert "hunter2" not in text and "garden_api_key=***" in text and "num_roses" in text


def test_secret_behind_an_abbreviated_flag_stays_in_memory(parse: Parse):
    assert "hunter2" not in save_cfg(parse("--garden_a", "hunter2")).read_text(encoding="utf-8")


def test_paths_and_numpy_numbers_are_stored_as_plain_values(parse: Parse, tmp_path: Path):
    cfg = parse()
    cfg.place, cfg.count, cfg.numbers = tmp_path, np.int64(3), np.array([1.5, 2.5])
    saved = read_cfg_file(save_cfg(cfg))
    assert (saved["place"], saved["count"], saved["numbers"]) == (str(tmp_path), 3, [1.5, 2.5])


def test_value_json_can_not_hold_is_refused(parse: Parse):
    cfg = parse()
    cfg.thing = {1, 2}
    with pytest.raises(ConfigError, match=r"\{1, 2\} can't be stored"):
        save_cfg(cfg)


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "cfg.json"
    write_json(path, {"a": 1})

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(experiment_files.os, "fsync", disk_full)
    with pytest.raises(ConfigError, match="No space left on device"):
        write_json(path, {"a": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["cfg.json"]


def test_file_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "cfg.json"
    existed = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        existed.append(path.exists())
        fsync(descriptor)

    monkeypatch.setattr(experiment_files.os, "fsync", watch)
    write_json(path, {})
    assert existed == [False, True]  # the file, then its directory


def test_resume_keeps_the_directory(parse: Parse):
    save_cfg(parse())
    directory = prepare_experiment_dir(parse())
    assert (directory / "cfg.json").exists()


def test_restart_moves_the_directory_to_the_next_free_name(parse: Parse, tmp_path: Path):
    for content in ("first", "second"):
        directory = prepare_experiment_dir(parse("--experiment=e", "--restart_behavior=restart"))
        (directory / "file").write_text(content, encoding="utf-8")
    prepare_experiment_dir(parse("--experiment=e", "--restart_behavior=restart"))
    assert (tmp_path / "e_old0001" / "file").read_text(encoding="utf-8") == "first"
    assert (tmp_path / "e_old0002" / "file").read_text(encoding="utf-8") == "second"
    assert list((tmp_path / "e").iterdir()) == []


def test_overwrite_deletes_an_experiment(parse: Parse):
    path = save_cfg(parse())
    prepare_experiment_dir(parse("--restart_behavior=overwrite"))
    assert path.parent.is_dir() and not path.exists()


def test_overwrite_leaves_other_directories_alone(parse: Parse, tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "rose.jpg").touch()
    with pytest.raises(ConfigError, match="is no experiment"):
        prepare_experiment_dir(parse("--experiment=photos", "--restart_behavior=overwrite"))
    assert (tmp_path / "photos" / "rose.jpg").exists()


def test_overwrite_does_not_follow_links(parse: Parse, tmp_path: Path):
    other = save_cfg(parse("--experiment=other"))
    (tmp_path / "link").symlink_to(other.parent)
    with pytest.raises(ConfigError):
        prepare_experiment_dir(parse("--experiment=link", "--restart_behavior=overwrite"))
    assert other.exists()


def test_directory_that_can_not_be_made_names_the_flag(parse: Parse, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--train_dir"):
        prepare_experiment_dir(parse(f"--train_dir={tmp_path / 'file'}"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout with one commit and one change, as working directory."""
    root = tmp_path / "checkout"
    root.mkdir()
    git = ["git", "-C", str(root), "-c", "user.name=Rose", "-c", "user.email=rose@garden"]
    (root / "file").write_text("old\n", encoding="utf-8")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    (root / "file").write_text("new\n", encoding="utf-8")
    monkeypatch.chdir(root)
    return root


def test_uncommitted_changes_are_stored(parse: Parse, checkout: Path):
    path = save_git_diff(parse())
    assert path is not None and path.name == "git.diff"
    assert "-old\n+new\n" in path.read_text(encoding="utf-8")


def test_outside_a_checkout_no_changes_are_stored(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    cfg = parse()
    assert save_git_diff(cfg) is None and not cfg_path(cfg).with_name("git.diff").exists()


def test_commit_and_address_of_the_checkout_are_recorded_without_login(parse: Parse, checkout: Path):
    address = "https://rose:hunter2@example.org/garden.git"
    subprocess.run(["git", "remote", "add", "origin", address], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    (checkout / "below").mkdir()
    os.chdir(checkout / "below")
    cfg = parse()
    assert cfg.git_hash == head.strip() and len(cfg.git_hash) == 40
    assert cfg.git_repo_name == "https://example.org/garden.git"


def test_outside_a_checkout_the_commit_is_unknown(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    cfg = parse()
    assert (cfg.git_hash, cfg.git_repo_name) == ("unknown", "not a git repository")


def test_missing_git_program_is_not_an_error(parse: Parse, checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    cfg = parse()
    assert (cfg.git_hash, cfg.git_repo_name) == ("unknown", "not a git repository")
