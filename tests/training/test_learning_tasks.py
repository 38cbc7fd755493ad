"""Small tasks that each need one ability: memory, real-valued actions, several choices, masks, agreement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_factory.envs.registry import register_env, temporary_registrations
from tests.doubles import register_doubles
from tests.training.learning import DOUBLE, make_ranked_mask, mean_reward, returns_of

pytestmark = [pytest.mark.learning, pytest.mark.slow]


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    with temporary_registrations():
        register_doubles()
        register_env("ranked_mask", make_ranked_mask)
        yield


@pytest.mark.parametrize("rnn_type", ["gru", pytest.param("lstm", marks=pytest.mark.long)])
def test_a_network_with_memory_repeats_what_it_saw(tmp_path: Path, rnn_type: str):
    flags = ("--env=double_memory", "--use_rnn=True", f"--rnn_type={rnn_type}")
    assert mean_reward(tmp_path, *DOUBLE, *flags)[0] > 0.9


@pytest.mark.long
def test_a_network_without_memory_can_only_guess(tmp_path: Path):
    assert 0.3 < mean_reward(tmp_path, *DOUBLE, "--env=double_memory")[0] < 0.7


def test_real_valued_actions_hit_their_target(tmp_path: Path):
    # A fresh policy gets about -19 in its 16 steps.
    flags = ("--env=double_continuous", "--exploration_loss_coeff=0.0", "--kl_loss_coeff=0.1")
    assert mean_reward(tmp_path, *DOUBLE, *flags)[0] > -2.0


@pytest.mark.long
def test_several_choices_at_once_are_all_learned(tmp_path: Path):
    # Guessing gets 4.7 of 16.
    assert mean_reward(tmp_path, *DOUBLE, "--env=double_multidiscrete")[0] > 13.0


def test_the_best_of_the_allowed_actions_is_chosen(tmp_path: Path):
    best = returns_of(lambda allowed, rng: allowed.max())
    guessing = returns_of(lambda allowed, rng: rng.choice(allowed))
    learned = mean_reward(tmp_path, *DOUBLE, "--env=ranked_mask")[0]
    assert learned > guessing + 0.8 * (best - guessing)


@pytest.mark.long
def test_two_policies_learn_to_act_alike(tmp_path: Path):
    # Each meets itself and the other; guessing gets 2.5 of 5.
    flags = ("--env=double_two_agents", "--num_policies=2")
    assert min(mean_reward(tmp_path, *DOUBLE, *flags, num_policies=2)) > 4.5
