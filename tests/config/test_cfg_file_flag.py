"""`--cfg_file`: settings from a file, below what is typed."""

from __future__ import annotations

import json

import pytest

from sample_factory.config.parsing import parse_args


def test_what_is_typed_wins_over_the_file_and_the_file_over_defaults(tmp_path):
    path = tmp_path / "tuned.json"
    path.write_text('{"env": "gym_CartPole-v1", "gamma": 0.9, "rollout": 64, "recurrence": -1}')
    cfg = parse_args([f"--cfg_file={path}", "--rollout=16"])
    assert (cfg.env, cfg.gamma, cfg.rollout, cfg.recurrence) == ("gym_CartPole-v1", 0.9, 16, 16)
    assert cfg.cli_args["gamma"] == 0.9  # counts as typed, also when an experiment is resumed
    assert cfg.command_line == f"--cfg_file={path} --rollout=16"


def test_yaml_numbers_words_lists_and_nulls_are_read_as_flags_are(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("learning_rate: 3e-4\nuse_rnn: false\nwandb_tags: [a, b]\nsave_milestones_sec: ~\n")
    cfg = parse_args(["--env=gym_CartPole-v1", "--cfg_file", str(path)])
    assert (cfg.learning_rate, cfg.use_rnn, cfg.wandb_tags) == (0.0003, False, ["a", "b"])


def test_the_cfg_json_of_another_experiment_gives_its_settings_but_not_its_name(tmp_path):
    old = parse_args(
        ["--env=gym_CartPole-v1", "--experiment=old", "--gamma=0.5", f"--train_dir={tmp_path}/x"]
    )
    path = tmp_path / "cfg.json"
    path.write_text(json.dumps(old.to_dict()))
    cfg = parse_args([f"--cfg_file={path}", "--experiment=new"])
    assert (cfg.experiment, cfg.gamma, cfg.env) == ("new", 0.5, "gym_CartPole-v1")
    assert cfg.train_dir != old.train_dir


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is neither JSON nor YAML"),
        ("[1]", "must hold settings by name"),
        ('{"gama": 0.9}', "--gama"),
        ('{"gamma": {"low": 1}}', "gamma must be one value"),
        ('{"rollout": "many"}', "rollout"),
    ],
)
def test_a_file_that_makes_no_sense_is_a_sentence_and_exit_code_2(tmp_path, capsys, text, complaint):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        parse_args(["--env=gym_CartPole-v1", f"--cfg_file={path}"])
    assert complaint in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse_args(["--env=gym_CartPole-v1", f"--cfg_file={tmp_path}/missing.json"])
    assert "missing.json can't be read" in capsys.readouterr().err
