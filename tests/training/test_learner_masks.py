"""What a policy may not learn from changes nothing; what it may learn from is counted and its age known."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.learner import LAG_BINS, IterationResult
from sample_factory.algorithms.appo.trajectories import NO_POLICY, POISON_REWARD
from tests.training.hand_made import (
    equal,
    gradients,
    invalidate,
    make_batch,
    make_cfg,
    make_learner,
    no_callback,
    weights,
)

INVALID = [(0, 3), (1, 0), (2, 5), (3, 1), (3, 2)]
RETURNS = pytest.mark.parametrize("with_vtrace", [True, False], ids=["vtrace", "gae"])


def _same_training(change: Callable[[Batch], None], **settings: object) -> bool:
    """Whether training on a batch with invalid steps is bit-equal before and after a change to the batch."""
    outcomes = []
    for changed in (False, True):
        learner = make_learner(make_cfg(**settings))
        batch = make_batch(learner)
        invalidate(batch, INVALID)
        batch.arrays["dones"][0, 2] = True  # the row after it is out of reach for the steps before
        batch.arrays["dones"][2, 4] = batch.arrays["dones"][3, 0] = batch.arrays["dones"][3, 1] = True
        batch.arrays["dones"][0, 3] = batch.arrays["dones"][2, 5] = batch.arrays["dones"][3, 2] = True
        batch.arrays["dones"][1, 0] = True
        if changed:
            change(batch)
        learner.train(batch, no_callback)
        outcomes.append((gradients(learner), weights(learner)))
    (first_gradients, first_weights), (second_gradients, second_weights) = outcomes
    return equal(first_gradients, second_gradients) and equal(first_weights, second_weights)


@RETURNS
@pytest.mark.parametrize("reward", [1e6, float("nan"), POISON_REWARD])
def test_the_reward_of_an_invalid_step_has_no_influence(with_vtrace, reward):
    def change(batch: Batch) -> None:
        for place in INVALID:
            batch.arrays["rewards"][place] = reward

    assert _same_training(change, with_vtrace=with_vtrace)


@RETURNS
def test_the_action_of_an_invalid_step_has_no_influence(with_vtrace):
    def change(batch: Batch) -> None:
        for place in INVALID:
            batch.arrays["outputs"][place][:-1] = [
                2.0,
                3.0,
                -1.0,
                0.5,
                -9.0,
            ]  # action, logits, log-probability

    assert _same_training(change, with_vtrace=with_vtrace, kl_loss_coeff=0.5)


@RETURNS
def test_the_observation_of_an_invalid_step_has_no_influence_when_no_step_leads_to_it(with_vtrace):
    def change(batch: Batch) -> None:
        for place in INVALID:
            batch.obs["obs"][place] = 7.0

    assert _same_training(change, with_vtrace=with_vtrace, normalize_input=True)


def test_the_observation_of_an_invalid_step_bootstraps_the_step_that_leads_to_it():
    found = []
    for value in (0.0, 7.0):
        learner = make_learner(make_cfg())
        batch = make_batch(learner, done_probability=0.0)
        invalidate(batch, [(0, 3)])
        batch.arrays["dones"][0, 3] = True  # as the engine records a time-out
        batch.obs["obs"][0, 3] = value
        learner.train(batch, no_callback)
        found.append(gradients(learner))
    assert not equal(*found)


@RETURNS
def test_trajectories_of_other_policies_have_no_influence(with_vtrace):
    def train(seed_of_foreign: int) -> dict:
        learner = make_learner(make_cfg(with_vtrace=with_vtrace), policy_id=1)
        batch, other = make_batch(learner, seed=1), make_batch(learner, seed=seed_of_foreign)
        foreign = [2, 5]
        for target, source in ((batch.arrays, other.arrays), (batch.obs, other.obs)):
            for name in target:
                target[name][foreign] = source[name][foreign]
        batch.arrays["policy_ids"][foreign] = 0
        learner.train(batch, no_callback)
        return weights(learner)

    assert equal(train(seed_of_foreign=2), train(seed_of_foreign=3))


def test_a_batch_without_any_step_of_this_policy_changes_nothing():
    learner = make_learner(make_cfg(), policy_id=1)
    batch = make_batch(learner)
    batch.arrays["policy_ids"][:] = 0
    before, steps = weights(learner), []
    result = learner.train(batch, lambda: steps.append(1), with_statistics=True)
    assert equal(before, weights(learner))
    assert (result.sgd_steps, steps, learner.policy_version, learner.env_steps) == (0, [], 0, 0)


def test_steps_that_are_too_old_are_trained_on_as_little_as_invalid_ones():
    outcomes = []
    for too_old in (True, False):
        learner = make_learner(make_cfg(max_policy_lag=4))
        learner.policy_version = 10
        batch = make_batch(learner)
        batch.arrays["policy_versions"][:] = 9
        if too_old:
            batch.arrays["policy_versions"][:, 2] = 6  # a lag of 4 is the first that is too much
        else:
            batch.arrays["policy_ids"][:, 2] = NO_POLICY
        batch.arrays["policy_versions"][:, 4] = 7  # a lag of 3 is the last that is not
        learner.train(batch, no_callback)
        outcomes.append(weights(learner))
    assert equal(*outcomes)


def test_a_minibatch_without_a_valid_step_is_survived_and_described():
    learner = make_learner(make_cfg(num_batches_per_iteration=2, shuffle_minibatches=False))
    batch = make_batch(learner)
    batch.arrays["policy_ids"][8:] = NO_POLICY
    result = learner.train(batch, no_callback, with_statistics=True)
    assert result.scalars["valids_fraction"] == 0.5
    assert learner.skipped_steps == 0


def _train_with_lags(lags: np.ndarray) -> IterationResult:
    learner = make_learner(make_cfg(max_policy_lag=1000))
    learner.policy_version = 200
    batch = make_batch(learner)
    batch.arrays["policy_versions"][:] = 200 - lags
    return learner.train(batch, no_callback, with_statistics=True)


def test_the_lag_histogram_counts_every_step_once():
    lags = np.tile([0, 0, 1, 3, 3, 3], (8, 1))
    histogram = _train_with_lags(lags).lag_histogram()
    assert len(histogram) == LAG_BINS
    assert histogram[:5] == [16, 8, 0, 24, 0]
    assert sum(histogram) == 48


def test_the_last_bin_of_the_lag_histogram_counts_everything_beyond():
    lags = np.tile([0, 62, 63, 64, 150, 199], (8, 1))
    histogram = _train_with_lags(lags).lag_histogram()
    assert histogram[62:] == [8, 32]


def test_lags_of_steps_that_others_chose_are_not_counted():
    learner = make_learner(make_cfg())
    learner.policy_version = 4
    batch = make_batch(learner)
    batch.arrays["policy_ids"][0] = 1
    invalidate(batch, [(1, 1)])
    assert sum(learner.train(batch, no_callback).lag_histogram()) == 48 - 6 - 1


def test_frames_and_samples_of_this_policy_alone_are_counted():
    learner = make_learner(make_cfg())
    batch = make_batch(learner)
    batch.arrays["frames"][:] = 4
    batch.arrays["policy_ids"][0] = 1
    invalidate(batch, [(1, 1), (1, 2)])
    result = learner.train(batch, no_callback)
    assert (result.samples, result.frames) == (48 - 8, 4 * (48 - 8))
    assert (learner.samples, learner.env_steps) == (40, 160)


def test_steps_that_are_too_old_to_train_on_are_counted_all_the_same():
    learner = make_learner(make_cfg(max_policy_lag=2))
    learner.policy_version = 9
    result = learner.train(make_batch(learner), no_callback)
    assert (result.samples, result.sgd_steps, learner.env_steps) == (48, 0, 48)


def test_counting_a_batch_does_not_train():
    learner = make_learner(make_cfg())
    before = copy.deepcopy(weights(learner))
    result = learner.count(make_batch(learner))
    assert (result.samples, result.sgd_steps) == (48, 0)
    assert equal(before, weights(learner))


def test_the_share_of_own_and_of_valid_steps_is_reported():
    learner = make_learner(make_cfg(max_policy_lag=2))
    learner.policy_version = 3
    batch = make_batch(learner)
    batch.arrays["policy_versions"][:] = 3
    batch.arrays["policy_versions"][:2] = 0  # own, too old
    batch.arrays["policy_ids"][2] = 1
    scalars = learner.train(batch, no_callback, with_statistics=True).scalars
    assert scalars["same_policy_fraction"] == pytest.approx(7 / 8)
    assert scalars["valids_fraction"] == pytest.approx(5 / 8)
