"""The command lines people have in their scripts parse word for word."""

from __future__ import annotations

import pytest

from sample_factory.config.parsing import parse_args
from sample_factory.config.validation import validate

DMLAB_30 = (
    "--env=dmlab_30 --train_for_seconds=3600000 --algo=APPO --gamma=0.99 --use_rnn=True --num_workers=90 "
    "--num_envs_per_worker=12 --ppo_epochs=1 --rollout=32 --recurrence=32 --batch_size=2048 "
    "--benchmark=False --ppo_epochs=1 --max_grad_norm=0.0 --dmlab_renderer=software "
    "--decorrelate_experience_max_seconds=120 --reset_timeout_seconds=300 "
    "--encoder_custom=dmlab_instructions --encoder_type=resnet --encoder_subtype=resnet_impala "
    "--encoder_extra_fc_layers=1 --hidden_size=256 --nonlinearity=relu --rnn_type=lstm "
    "--dmlab_extended_action_set=True --num_policies=4 --pbt_replace_reward_gap=0.05 "
    "--pbt_replace_reward_gap_absolute=5.0 --pbt_period_env_steps=10000000 "
    "--pbt_start_mutation=100000000 --with_pbt=True --experiment=dmlab_30_resnet_4pbt_w90_v12 "
    "--dmlab_one_task_per_worker=True --set_workers_cpu_affinity=True --max_policy_lag=35 "
    "--pbt_target_objective=dmlab_target_objective --dmlab30_dataset=~/datasets/brady_konkle_oliva2008 "
    "--dmlab_use_level_cache=True --dmlab_level_cache_path=/home/user/dmlab_cache"
)
DOOM_WANDB = (
    "--env=doom_basic --algo=APPO --train_for_env_steps=30000000 --num_workers=20 --num_envs_per_worker=20 "
    "--experiment=doom_basic --with_wandb=True --wandb_user=<your_wandb_user> "
    "--wandb_tags test benchmark doom appo"
)
DOOM_RUNNER = (
    "--train_for_env_steps=500000000 --algo=APPO --env_frameskip=4 --use_rnn=True --num_workers=36 "
    "--num_envs_per_worker=8 --num_policies=1 --ppo_epochs=1 --rollout=32 --recurrence=32 --batch_size=2048 "
    "--wide_aspect_ratio=False --seed=0 --env=doom_my_way_home "
    "--experiment=00_basic_envs_fs4_see_0_env_doom_my_way_home --train_dir=./train_dir "
    "--experiments_root=doom_basic_envs_appo/basic_envs_fs4_"
)
DUMMY_SAMPLER = (
    "--algo=DUMMY_SAMPLER --env=doom_benchmark --num_workers=20 --num_envs_per_worker=1 "
    "--experiment=dummy_sampler --sample_env_frames=5000000"
)

pytestmark = pytest.mark.usefixtures("doom_family")


@pytest.mark.parametrize("line", [DMLAB_30, DOOM_WANDB, DOOM_RUNNER, DUMMY_SAMPLER])
def test_documented_command_line_is_valid(line: str):
    assert validate(parse_args(line.split(" "))) == []


@pytest.mark.parametrize("line", [DMLAB_30, DOOM_WANDB, DOOM_RUNNER, DUMMY_SAMPLER])
def test_recorded_command_line_is_the_one_typed(line: str):
    assert parse_args(line.split(" ")).command_line == line


def test_dmlab_command_line_sets_what_it_says():
    cfg = parse_args(DMLAB_30.split(" "))
    assert (cfg.max_grad_norm, cfg.num_policies, cfg.rnn_type, cfg.hidden_size) == (0.0, 4, "lstm", 256)
    assert (cfg.dmlab_one_task_per_worker, cfg.dmlab_renderer, cfg.res_w) == (True, "software", 96)
    assert (cfg.obs_scale, cfg.env_frameskip) == (255.0, 4)  # the family's defaults


def test_wandb_tags_are_a_list_of_words():
    cfg = parse_args(DOOM_WANDB.split(" "))
    assert cfg.wandb_tags == ["test", "benchmark", "doom", "appo"]
    assert cfg.wandb_user == "<your_wandb_user>"


def test_runner_command_line_places_the_experiment_under_its_root():
    cfg = parse_args(DOOM_RUNNER.split(" "))
    assert (cfg.seed, cfg.experiments_root) == (0, "doom_basic_envs_appo/basic_envs_fs4_")


def test_dummy_sampler_command_line_stops_at_its_frames():
    cfg = parse_args(DUMMY_SAMPLER.split(" "))
    assert (cfg.algo, cfg.sample_env_frames, cfg.timeout_seconds) == ("DUMMY_SAMPLER", 5_000_000, 600)
