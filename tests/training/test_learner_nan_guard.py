"""A loss or gradient that is not finite: the step is skipped, its cause named; too many in a row end it."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.learner import Learner, NonFiniteTrainingError
from tests.training.hand_made import equal, make_batch, make_cfg, make_learner, no_callback, weights


def _poisoned(learner: Learner, reward: float = math.nan) -> Batch:
    batch = make_batch(learner, seed=5)
    batch.arrays["rewards"][3, 2] = reward
    return batch


def _trained_once(**settings: Any) -> Learner:
    """A learner whose optimiser has something to lose."""
    learner = make_learner(make_cfg(**settings))
    learner.train(make_batch(learner), no_callback)
    return learner


@pytest.mark.parametrize("with_vtrace", [True, False], ids=["vtrace", "gae"])
@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_leaves_weights_optimiser_and_version_as_they_were(with_vtrace, reward):
    learner = _trained_once(with_vtrace=with_vtrace)
    before = copy.deepcopy(learner.state_dict())
    result = learner.train(_poisoned(learner, reward), no_callback)
    after = learner.state_dict()
    assert equal(before["model"], after["model"])
    assert equal(before["optimizer"]["state"][0], after["optimizer"]["state"][0])
    assert (result.sgd_steps, learner.policy_version) == (0, 1)


def test_nobody_is_told_of_an_sgd_step_that_was_skipped():
    learner, steps = make_learner(make_cfg()), []
    learner.train(_poisoned(learner), lambda: steps.append(1))
    assert steps == []


def test_the_loss_that_is_not_finite_is_named(log_lines):
    learner = make_learner(make_cfg())
    learner.train(_poisoned(learner), no_callback)
    assert log_lines == ["Policy 0: policy_loss is not finite; the SGD step is skipped."]


@pytest.mark.parametrize("compute", ["numpy", "torch"])
def test_the_gradient_that_is_not_finite_is_named(compute, log_lines):
    # Values are 0 and the loss is below what a float can hold; times features of 1e4 it no longer is.
    optimizer = "adam" if compute == "numpy" else "lamb"
    learner = make_learner(make_cfg(value_loss_coeff=1e36, nonlinearity="relu", optimizer=optimizer))
    assert (learner._network is not None) == (compute == "numpy")
    with torch.no_grad():
        learner.model.actor.encoder.fully_connected[-2].bias.fill_(1e4)
        learner.model.value_head.weight.zero_()
    before = weights(learner)
    learner.train(make_batch(learner), no_callback)
    assert log_lines == ["Policy 0: gradient of value_head.weight is not finite; the SGD step is skipped."]
    assert equal(before, weights(learner))


def test_skipped_steps_are_counted_and_reported():
    learner = make_learner(make_cfg())
    learner.train(_poisoned(learner), no_callback)
    learner.train(_poisoned(learner), no_callback)
    result = learner.train(make_batch(learner), no_callback, with_statistics=True)
    assert learner.skipped_steps == 2
    assert result.scalars["skipped_steps"] == 2.0


def test_too_many_skipped_steps_in_a_row_end_training_with_advice():
    learner = make_learner(make_cfg(nan_guard_max_skips=3))
    for _ in range(2):
        learner.train(_poisoned(learner), no_callback)
    with pytest.raises(NonFiniteTrainingError, match=r"^3 SGD steps in a row .*policy_loss.*--learning_rate"):
        learner.train(_poisoned(learner), no_callback)


def test_a_good_step_in_between_starts_the_count_anew():
    learner = make_learner(make_cfg(nan_guard_max_skips=2))
    for _ in range(3):
        learner.train(_poisoned(learner), no_callback)
        learner.train(make_batch(learner), no_callback)
    assert (learner.skipped_steps, learner.policy_version) == (3, 3)


@pytest.mark.parametrize("with_vtrace", [True, False], ids=["vtrace", "gae"])
def test_the_statistics_of_returns_survive_a_reward_that_is_not_finite(with_vtrace):
    learner = _trained_once(with_vtrace=with_vtrace, normalize_returns=True)
    before = weights(learner)
    learner.train(_poisoned(learner), no_callback)
    assert equal(before, weights(learner))


def test_the_statistics_of_observations_survive_one_that_is_not_finite():
    learner = _trained_once(normalize_input=True)
    batch = make_batch(learner, seed=5)
    batch.obs["obs"][3, 2] = math.nan
    learner.train(batch, no_callback)
    assert torch.isfinite(learner.model.obs_normalizers["obs"].mean).all()
    result = learner.train(make_batch(learner), no_callback)
    assert result.sgd_steps == 1


def test_a_gradient_of_the_auxiliary_loss_that_is_not_finite_changes_nothing(log_lines):
    learner = make_learner(make_cfg(use_cpc=True, use_rnn=True, cpc_forward_steps=3))
    parameter = learner._aux_parameters()[0]
    parameter.register_hook(lambda gradient: gradient * math.inf)
    before = copy.deepcopy(learner.state_dict())
    result = learner.train(make_batch(learner), no_callback)
    after = learner.state_dict()
    assert result.sgd_steps == 0
    assert equal(before["model"], after["model"])
    assert equal(before["aux_loss_module"], after["aux_loss_module"])
    assert len(log_lines) == 1
    assert log_lines[0].startswith("Policy 0: gradient of aux_loss.")
