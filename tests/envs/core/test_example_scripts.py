"""The environments and networks of `sample_factory_examples` are those the documentation promises."""

import numpy as np
import pytest
import torch

from sample_factory.config.parsing import parse_args
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import temporary_registrations
from sample_factory_examples import train_custom_env_custom_model as single
from sample_factory_examples import train_custom_multi_env as multi
from tests.envs.contract_check import check_env

SINGLE = "my_custom_env_v1"
MULTI = "my_custom_multi_env_v1"


@pytest.fixture(autouse=True)
def registered():
    with temporary_registrations():
        single.register_custom_components()
        multi.register_custom_components()
        yield


def cfg_of(name, *flags):
    return parse_args([f"--env={name}", "--algo=APPO", *flags])


@pytest.mark.parametrize("name", [SINGLE, MULTI])
def test_an_example_environment_keeps_the_contract(name):
    check_env(name, steps=60, reproducible=True)


def test_flags_of_the_custom_environment_and_of_its_script_have_the_defaults_of_v1():
    cfg = single.custom_parse_args([f"--env={SINGLE}", "--algo=APPO"])
    chosen = (cfg.my_custom_arg, cfg.custom_env_num_actions, cfg.custom_env_episode_len, cfg.hidden_size)
    assert chosen == (42, 10, 1000, 128)


def test_the_multi_agent_example_has_short_episodes_by_default():
    assert cfg_of(MULTI).custom_env_episode_len == 10


def test_the_custom_environment_rewards_a_hundredth_of_the_action_until_time_is_up():
    env = make_env(SINGLE, cfg_of(SINGLE, "--custom_env_episode_len=3"), None)
    env.reset(seed=0)
    steps = [env.step(7) for _ in range(4)]
    assert [step[1] for step in steps] == pytest.approx([0.07] * 4)
    assert [step[3] for step in steps] == [False, False, False, True]


@pytest.mark.parametrize(
    ("actions", "rewards"),
    [([0, 0], [-0.1, -0.1]), ([0, 1], [-0.2, -0.2]), ([1, 0], [-0.2, -0.25]), ([1, 1], [-0.1, -0.1])],
)
def test_the_matrix_game_pays_what_its_matrix_says(actions, rewards):
    env = make_env(MULTI, cfg_of(MULTI), None)
    env.reset(seed=0)
    _, paid, _, _, infos = env.step(actions)
    assert [info["is_active"] for info in infos] == [True, True]
    assert paid == rewards


def test_agents_lose_control_every_200_steps_for_24_steps_on_average():
    env = make_env(MULTI, cfg_of(MULTI), None)
    env.reset(seed=0)
    active = np.array([env.step([0, 0])[4][0]["is_active"] for _ in range(20_000)])
    runs = [len(run) for run in "".join("a" if a else "." for a in active).split("a") if run]
    assert max(runs) > 24
    assert np.mean(runs) == pytest.approx(24.5, abs=5)
    # 24.5 steps without control every 200 steps with it
    assert 1 - active.mean() == pytest.approx(24.5 / (24.5 + 200), abs=0.04)


@pytest.mark.parametrize("name", [SINGLE, MULTI])
def test_the_custom_encoder_reads_the_observations_of_both_examples(name):
    cfg = cfg_of(name)
    space = observation_dict_space(make_env(name, cfg, None))
    encoder = single.CustomEncoder(cfg, space)
    encoded = encoder({"obs": torch.zeros(5, *space["obs"].shape)})
    assert encoded.shape == (5, 128)
    assert encoder.encoder_out_size == 128
