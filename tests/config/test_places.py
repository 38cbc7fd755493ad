import shlex

import pytest

from sample_factory.config.places import command_without_places, settings_without_places
from sample_factory.config.redaction import redacted_command_line


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("--env=x --train_dir=/home/me/runs --seed=1", "--env=x --seed=1"),
        ("--train_dir runs --env=x", "--env=x"),
        ("--env=x '--train_dir=/home/me/my runs' --seed=1", "--env=x --seed=1"),
        ("--experiments_root=a/b --env=x", "--env=x"),
        ("--cfg_file=/home/me/tuned.json --env=x", "--cfg_file=tuned.json --env=x"),
        ("--files /home/me/a ~/b c --env=x", "--files a b c --env=x"),
        ("--wandb_user=me --wandb_tags a b", "--wandb_tags a b"),
        ("--env=x '--note=two words'", "--env=x '--note=two words'"),
        ("--note=it's --train_dir=/x", "--note=it's"),  # recorded before quotes were
        ("", ""),
    ],
)
def test_a_command_line_loses_its_places_and_nothing_else(line, rest):
    shown = command_without_places(line)
    assert shown.replace("'--note=it'\"'\"'s'", "--note=it's") == rest


def test_settings_lose_what_names_a_place_and_values_that_are_paths():
    settings = {
        "env": "doom_basic",
        "train_dir": "runs",
        "git_repo_name": "x",
        "dmlab30_dataset": "~/datasets/x",
        "dmlab_level_cache_path": "/tmp/cache",
        "files": ["a", "/b"],
        "decoder_mlp_layers": [64, 64],
        "wandb_group": None,
    }
    assert settings_without_places(settings) == {
        "env": "doom_basic",
        "decoder_mlp_layers": [64, 64],
        "wandb_group": None,
    }


@pytest.mark.parametrize(
    "argv",
    [["--env=x", "--note=two words"], ["--tags", "a", "it's", ""], ['--rewards={"a": 1}', "~/x", "<y>"]],
)
def test_a_recorded_command_line_can_be_taken_apart_again(argv):
    assert shlex.split(redacted_command_line(argv, {})) == argv


def test_a_secret_with_quotes_is_blanked_too():
    line = redacted_command_line(["--api_key=it's secret"], {"api_key": "it's secret"})
    assert line == "--api_key=***"
