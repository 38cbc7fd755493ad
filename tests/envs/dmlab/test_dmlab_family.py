"""Flags and defaults of the family, and the command line of the published experiment."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.dmlab.family import FAMILY, dmlab_options, level_cache
from sample_factory.envs.dmlab.levels import env_spec
from sample_factory.envs.registry import family_for
from tests.envs.dmlab.published import PUBLISHED_COMMAND


@pytest.fixture
def published_cfg():
    return parse_args(shlex.split(PUBLISHED_COMMAND))


def test_the_family_is_found_by_its_prefix():
    assert family_for("dmlab_30") is FAMILY


def test_flags_and_their_defaults_are_those_of_version_1(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert {setting.name: setting.default_value() for setting in FAMILY.settings} == {
        "res_w": 96,
        "res_h": 72,
        "dmlab_throughput_benchmark": False,
        "dmlab_renderer": "software",
        "dmlab_gpus": [0],
        "dmlab30_dataset": "~/datasets/brady_konkle_oliva2008",
        "dmlab_with_instructions": True,
        "dmlab_extended_action_set": False,
        "dmlab_use_level_cache": True,
        "dmlab_level_cache_path": str(tmp_path / ".dmlab_cache"),
        "dmlab_one_task_per_worker": False,
    }


def test_the_family_changes_these_general_defaults(make_cfg):
    cfg = make_cfg("dmlab_benchmark")
    assert (cfg.encoder_type, cfg.encoder_subtype, cfg.encoder_custom) == ("conv", "convnet_impala", None)
    assert (cfg.hidden_size, cfg.obs_subtract_mean, cfg.obs_scale, cfg.env_frameskip) == (512, 0.0, 255.0, 4)


def test_the_published_command_is_understood(published_cfg):
    assert published_cfg.env == "dmlab_30"
    assert published_cfg.num_workers == 90
    assert published_cfg.encoder_custom == "dmlab_instructions"
    assert published_cfg.hidden_size == 256
    assert published_cfg.pbt_target_objective == "dmlab_target_objective"
    assert published_cfg.dmlab_one_task_per_worker is True


def test_the_published_command_gives_this_environment(published_cfg, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    place = EnvConfig(worker_index=65, vector_index=3, env_id=65 * 12 + 3)
    options = dmlab_options(env_spec(published_cfg.env), published_cfg, place)
    assert options.task_id == 5
    assert options.lab.level_path == "contributed/dmlab30/language_select_described_object"
    assert options.lab.dataset_path == "/home/someone/datasets/brady_konkle_oliva2008"
    assert (options.lab.width, options.lab.height) == (96, 72)
    assert (options.extended_actions, options.frameskip) == (True, 4)
    assert options.lab.with_instructions


def test_the_cache_lies_where_the_flag_says_also_with_a_tilde(make_cfg, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert level_cache(make_cfg("dmlab_30", dmlab_level_cache_path="/x/y")).folder == Path("/x/y")
    assert level_cache(make_cfg("dmlab_30", dmlab_level_cache_path="~/c")).folder == Path("/home/someone/c")


def test_a_renderer_that_does_not_exist_ends_the_program(capsys):
    with pytest.raises(SystemExit) as exit_info:
        parse_args(["--env=dmlab_30", "--algo=APPO", "--dmlab_renderer=crayon"])
    assert exit_info.value.code == 2
    assert "software, hardware" in capsys.readouterr().err


def test_the_flags_are_known_without_importing_gymnasium_or_numpy():
    script = (
        "import sys; import sample_factory.envs.dmlab.family; "
        "print(sorted({'numpy', 'gymnasium', 'torch', 'deepmind_lab'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
