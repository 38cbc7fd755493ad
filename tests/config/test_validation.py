"""Rules across settings: each is found, all are found at once, and what is suggested works."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.parsing import default_cfg
from sample_factory.config.settings_experiment import ALGORITHMS
from sample_factory.config.validation import check, validate, warnings

Parse = Callable[..., Config]


def changed(**values: Any) -> Config:
    return Config.from_dict({**default_cfg().to_dict(), **values})


def apply(problem: str, cfg: Config) -> Config:
    """The configuration after typing the first flag that a sentence says to use."""
    name, value = re.search(r"use --(\w+)=(-?\d+)", problem).groups()
    return Config.from_dict({**cfg.to_dict(), name: int(value)})


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_defaults_are_valid(algo: str):
    assert validate(default_cfg(algo)) == []


@pytest.mark.parametrize(
    "env", ["atari_pong", "dmlab_30", "mujoco_ant", "MiniGrid-Empty-5x5-v0", "gym_CartPole-v1"]
)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_defaults_of_a_family_are_valid(env: str, algo: str):
    assert validate(default_cfg(algo, env)) == []


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"batch_size": 1000},
            "--batch_size=1000 times --num_batches_per_iteration=1 must be a multiple of --rollout=32; "
            "use --batch_size=992 or --batch_size=1024.",
        ),
        (
            {"batch_size": 16},
            "--batch_size=16 times --num_batches_per_iteration=1 must be a multiple of --rollout=32; "
            "use --batch_size=32.",
        ),
        (
            {"batch_size": 48, "num_batches_per_iteration": 2},
            "--batch_size=48 must be a multiple of --recurrence=32; use --batch_size=32 or --batch_size=64.",
        ),
        (
            {"recurrence": 5, "with_vtrace": False, "batch_size": 160},
            "--recurrence=5 must divide --rollout=32; use --recurrence=32.",
        ),
        (
            {"recurrence": 0, "with_vtrace": False},
            "--recurrence=0 must divide --rollout=32; use --recurrence=32.",
        ),
        (
            {"recurrence": 1, "use_rnn": False},
            "--with_vtrace=True needs --recurrence and --rollout to be equal and above 1, but they are "
            "1 and 32; use --recurrence=32, or --with_vtrace=False.",
        ),
        (
            {"recurrence": 1, "rollout": 1},
            "--with_vtrace=True needs --recurrence and --rollout to be equal and above 1, but they are "
            "1 and 1; use --rollout=32 --recurrence=32, or --with_vtrace=False.",
        ),
        (
            {"num_envs_per_worker": 5},
            "--num_envs_per_worker=5 must be a multiple of --worker_num_splits=2; "
            "use --num_envs_per_worker=4 or --num_envs_per_worker=6, or --worker_num_splits=1.",
        ),
        (
            {"num_envs_per_worker": 1},
            "--num_envs_per_worker=1 must be a multiple of --worker_num_splits=2; "
            "use --num_envs_per_worker=2, or --worker_num_splits=1.",
        ),
        (
            {"pbt_perturb_min": 1.6},
            "--pbt_perturb_min=1.6 must not exceed --pbt_perturb_max=1.5; use --pbt_perturb_max=1.6.",
        ),
        (
            {"lr_adaptive_min": 0.1},
            "--lr_adaptive_min=0.1 must not exceed --lr_adaptive_max=0.01; use --lr_adaptive_max=0.1.",
        ),
        ({"encoder_type": "cnn"}, "--encoder_type=cnn must be one of conv, resnet, mlp."),
        (
            {"policy_index": 2, "num_policies": 2},
            "--policy_index=2 does not exist among --num_policies=2; use --policy_index=1 at most.",
        ),
        ({"gamma": 1.5}, "--gamma=1.5 must be at least 0 and at most 1, for example --gamma=0.99."),
        ({"num_workers": 0, "async_rl": True}, "--num_workers=0 must be at least 1, for example "),
        (
            {"traj_buffers_excess_ratio": 0.9},
            "--traj_buffers_excess_ratio=0.9 must be at least 1, for example ",
        ),
        (
            {"pbt_mutation_rate": -0.1},
            "--pbt_mutation_rate=-0.1 must be at least 0 and at most 1, for example ",
        ),
        (
            {"adam_beta1": 1.0},
            "--adam_beta1=1.0 must be at least 0 and below 1, for example --adam_beta1=0.9.",
        ),
        ({"obs_scale": 0.0}, "--obs_scale=0.0 must be above 0, for example --obs_scale=1.0."),
        ({"gamma": float("nan")}, "--gamma=nan must be a number, for example --gamma=0.99."),
        ({"env_frameskip": 0}, "--env_frameskip=0 must be at least 1, for example --env_frameskip=1."),
        # What a person may have written into cfg.json:
        ({"rollout": "32"}, "--rollout='32' must be a whole number, for example --rollout=32."),
        ({"rollout": True}, "--rollout=True must be a whole number, for example --rollout=32."),
        ({"use_rnn": 1}, "--use_rnn=1 must be True or False, for example --use_rnn=True."),
        ({"rnn_type": "rwkv"}, "--rnn_type=rwkv must be one of gru, lstm."),
        ({"num_policies": None}, "--num_policies=None must be a whole number, for example --num_policies=1."),
        ({"wandb_tags": "a b"}, "--wandb_tags='a b' must be a list, for example --wandb_tags name."),
        ({"encoder_mlp_layers": [64, 0]}, "--encoder_mlp_layers=0 must be at least 1, for example "),
        ({"shuffle_minibatches": "yes"}, "--shuffle_minibatches='yes' must be True or False, for example "),
    ],
)
def test_one_mistake_gives_one_sentence(values: dict[str, Any], sentence: str):
    problems = validate(changed(**values))
    assert len(problems) == 1 and problems[0].startswith(sentence)


def test_all_problems_are_found_at_once():
    problems = validate(
        changed(batch_size=1000, num_envs_per_worker=5, gamma=2.0, rnn_type="rwkv", experiment="../x")
    )
    flags = [
        "--experiment=../x",
        "--gamma=2.0",
        "--rnn_type=rwkv",
        "--batch_size=1000",
        "--num_envs_per_worker=5",
    ]
    assert len(problems) == 5 and all(any(flag in text for text in problems) for flag in flags)


@pytest.mark.parametrize(
    "values",
    [
        {"batch_size": 1000},
        {"batch_size": 48, "num_batches_per_iteration": 2},
        {"recurrence": 5, "with_vtrace": False, "batch_size": 160},
        {"recurrence": 1, "use_rnn": False},
        {"num_envs_per_worker": 5},
        {"num_envs_per_worker": 1},
        {"policy_index": 2},
    ],
)
def test_suggested_value_works(values: dict[str, Any]):
    cfg = changed(**values)
    [problem] = validate(cfg)
    assert validate(apply(problem, cfg)) == []


def test_recurrence_chosen_automatically_is_valid():
    assert validate(changed(recurrence=-1, use_rnn=False)) == []


def test_custom_encoder_may_have_any_type():
    assert validate(changed(encoder_type="cnn", encoder_custom="mine")) == []


def test_taking_turns_needs_batches_that_fit_what_is_collected():
    cfg = changed(async_rl=False, num_workers=6, num_envs_per_worker=2)
    assert validate(cfg) == [
        "--async_rl=False needs --batch_size=1024 times --num_batches_per_iteration=1 to be a multiple of "
        "the 384 steps a policy collects in one rollout; use --batch_size=768 or --batch_size=1152."
    ]


def test_agents_count_as_collected_steps():
    cfg = changed(async_rl=False, num_workers=2, num_envs_per_worker=2)
    assert validate(cfg) == []  # 2 * 2 * 32 = 128 divides 1024
    assert len(validate(cfg, num_agents=3)) == 1  # 384 does not


@given(
    num_workers=st.integers(1, 12),
    envs=st.integers(1, 6),
    rollout=st.integers(2, 40),
    minibatches=st.integers(1, 6),
    batch_size=st.integers(1, 4000),
)
def test_following_suggestions_always_ends_in_a_valid_configuration(
    num_workers: int, envs: int, rollout: int, minibatches: int, batch_size: int
):
    cfg = changed(
        async_rl=False,
        num_workers=num_workers,
        num_envs_per_worker=envs,
        rollout=rollout,
        num_batches_per_iteration=minibatches,
        batch_size=batch_size,
    )
    for _ in range(8):
        problems = validate(cfg)
        if not problems:
            return
        cfg = apply(problems[0], cfg)
    raise AssertionError(problems)


def test_settings_of_the_family_are_checked(parse: Parse):
    assert validate(parse("--num_roses=0")) == [
        "--num_roses=0 must be at least 1, for example --num_roses=7."
    ]


def test_check_raises_every_problem_as_a_line():
    with pytest.raises(ConfigError) as error:
        check(changed(gamma=2.0, rollout=0))
    assert len(error.value.problems) == 2 and str(error.value).count("\n") == 1


def test_check_is_silent_about_a_valid_configuration():
    check(default_cfg())


def test_population_of_one_is_a_warning_not_a_problem():
    cfg = changed(with_pbt=True)
    assert validate(cfg) == []
    assert warnings(cfg) == [
        "--with_pbt=True changes nothing with --num_policies=1; use --num_policies=2 or more."
    ]
    assert warnings(changed(with_pbt=True, num_policies=2)) == []


def test_keys_to_normalise_without_normalising_are_a_warning():
    assert len(warnings(changed(normalize_input_keys=["obs"]))) == 1


def test_problems_are_shown_without_traceback_and_end_the_program_with_2(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_info:
        report_and_exit(ConfigError(["one.", "two."]))
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == "error: one.\nerror: two.\n"


def test_taking_turns_needs_the_same_number_of_environments_for_every_policy():
    cfg = default_cfg()
    cfg.async_rl, cfg.num_workers, cfg.num_envs_per_worker, cfg.num_policies = False, 3, 2, 4
    assert (
        "--async_rl=False needs the 6 environments of all workers to be a multiple of --num_policies=4; "
        "use --num_workers=4."
    ) in validate(cfg)
