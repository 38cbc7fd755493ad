"""A learner's state, saved and loaded, continues as if nothing had happened."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sample_factory.algorithms.appo.learner import Learner
from sample_factory.model.checkpoint_format import decode, encode
from tests.training.hand_made import equal, make_batch, make_cfg, make_learner, no_callback, weights

CASES: dict[str, dict[str, Any]] = {
    "adam": {},
    "lamb": {"optimizer": "lamb"},
    "shuffled minibatches": {"num_batches_per_iteration": 4, "batch_size": 12, "ppo_epochs": 2},
    "auxiliary loss": {"use_cpc": True, "use_rnn": True},
    "normalisers": {"normalize_input": True, "normalize_returns": True},
    "linear decay": {"lr_schedule": "linear_decay", "train_for_env_steps": 480},
    "adaptive rate": {"lr_schedule": "kl_adaptive_minibatch"},
    "GAE": {"with_vtrace": False, "recurrence": 3, "use_rnn": True},
}


def _train(learner: Learner, seeds: range) -> None:
    for seed in seeds:
        learner.train(make_batch(learner, seed=seed), no_callback)


@pytest.mark.parametrize("case", CASES)
def test_training_goes_on_bit_for_bit_after_saving_and_loading(case):
    cfg = make_cfg(**CASES[case])
    learner = make_learner(cfg)
    _train(learner, range(3))
    saved = encode({"state": learner.state_dict()})
    resumed = make_learner(cfg, seed=99)
    resumed.load_state_dict(decode(saved)["state"])
    _train(learner, range(3, 6))
    _train(resumed, range(3, 6))
    assert equal(weights(learner), weights(resumed))


def test_the_counters_come_back():
    learner = make_learner(make_cfg(ppo_epochs=2))
    batch = make_batch(learner)
    batch.arrays["frames"][:] = 4
    learner.train(batch, no_callback)
    resumed = make_learner(make_cfg())
    resumed.load_state_dict(learner.state_dict())
    assert (resumed.policy_version, resumed.env_steps, resumed.samples) == (2, 192, 48)


def test_a_learning_rate_typed_when_resuming_counts():
    learner = make_learner(make_cfg(learning_rate=0.001))
    _train(learner, range(1))
    resumed = make_learner(make_cfg(learning_rate=0.005))
    resumed.load_state_dict(learner.state_dict())
    _train(resumed, range(1, 2))
    assert resumed.state_dict()["optimizer"]["param_groups"][0]["lr"] == 0.005


def test_loading_does_not_share_memory_with_what_was_saved():
    learner = make_learner(make_cfg())
    _train(learner, range(1))
    state = learner.state_dict()
    kept = {name: tensor.clone() for name, tensor in state["model"].items()}
    resumed = make_learner(make_cfg())
    resumed.load_state_dict(state)
    _train(resumed, range(1, 3))
    assert equal(kept, {name: tensor.detach() for name, tensor in state["model"].items()})


def test_the_global_random_numbers_come_back_too():
    learner = make_learner(make_cfg())
    state = learner.state_dict()
    expected = torch.rand(3)
    learner.load_state_dict(state)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_a_learner_catches_up_with_what_was_published_after_its_checkpoint(optimizer: str):
    cfg = make_cfg(lr_schedule="linear_decay", train_for_env_steps=480, optimizer=optimizer)
    learner = make_learner(cfg)
    _train(learner, range(2))
    saved = encode({"state": learner.state_dict()})
    _train(learner, range(2, 5))
    successor = make_learner(cfg, seed=99)
    successor.load_state_dict(decode(saved)["state"])
    published = {name: moments.clone() for name, moments in learner.moments().items()}
    successor.catch_up(weights(learner), published, policy_version=5)
    assert equal(weights(learner), weights(successor))
    assert successor.policy_version == 5
    assert successor.state_dict()["lr_schedule"] == learner.state_dict()["lr_schedule"] == {"updates": 5}
    for each in (learner, successor):
        _train(each, range(5, 7))
    assert equal(weights(learner), weights(successor))  # bit by bit: the optimiser remembers the same
    assert successor.policy_version == 7
