"""Losses derived by hand give the numbers and gradients that torch's differentiation gives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.algorithms.appo import objective as objectives
from sample_factory.algorithms.appo.training_data import to_training_data
from tests.training.hand_made import THREE_ACTIONS, VECTOR, make_batch, make_cfg, make_learner

NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
MASKED = spaces.Dict({**VECTOR.spaces, "action_mask": spaces.Box(0, 1, (3,), np.int8)})


def both_ways(action_space, invalid_share=0.2, **changes):
    """The two objectives of one minibatch, and the gradients of both with respect to the network."""
    cfg = make_cfg(**changes)
    learner = make_learner(cfg, action_space=action_space)
    batch = make_batch(learner)
    rng = np.random.default_rng(3)
    valids = rng.random(batch.arrays["rewards"].shape) >= invalid_share
    data, _ = to_training_data(batch, learner._layout, valids, torch.device("cpu"))
    if not cfg.with_vtrace:
        data = objectives.with_gae(data, torch.randn(len(valids)), cfg, learner.model.returns_normalizer)
        data = replace(data, obs={k: v[:, : valids.shape[1]] for k, v in data.obs.items()})
    with torch.no_grad():  # far enough from the policy that acted for clipping to matter
        for parameter in learner.model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    assert objectives.can_derive_losses(learner.model, data, cfg)
    results = []
    for compute in (objectives.hand_derived_objective, objectives.differentiated_objective):
        learner.model.zero_grad()
        output = learner.model.evaluate(data.obs, data.rnn_states, data.dones)
        objective = compute(learner.model, data, output, cfg)
        objective.total.backward()
        results.append((objective, [p.grad.clone() for p in learner.model.parameters()]))
    return results


def assert_same(results):
    (by_hand, gradients), (by_torch, expected) = results
    torch.testing.assert_close(by_hand.total, by_torch.total.detach(), rtol=1e-4, atol=1e-6)
    for name, loss in by_torch.components().items():
        torch.testing.assert_close(
            by_hand.components()[name],
            loss.detach(),
            rtol=1e-4,
            atol=1e-6,
            msg=lambda text, n=name: f"{n}: {text}",
        )
    torch.testing.assert_close(by_hand.ratios, by_torch.ratios.detach(), rtol=1e-4, atol=1e-6)
    for got, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("with_vtrace", [True, False], ids=["vtrace", "gae"])
@pytest.mark.parametrize("action_space", [THREE_ACTIONS, NUMBERS], ids=["choice", "numbers"])
@pytest.mark.parametrize("coefficient", [0.0, 0.5], ids=["no bonus", "entropy"])
def test_losses_and_gradients_are_the_same(with_vtrace, action_space, coefficient):
    assert_same(
        both_ways(
            action_space,
            with_vtrace=with_vtrace,
            exploration_loss="entropy",
            exploration_loss_coeff=coefficient,
            recurrence=6,
        )
    )


def test_the_divergence_from_the_uniform_policy_is_the_same():
    assert_same(both_ways(THREE_ACTIONS, exploration_loss="symmetric_kl", exploration_loss_coeff=0.5))


def test_narrow_clipping_is_the_same():
    results = both_ways(
        THREE_ACTIONS, invalid_share=0.0, ppo_clip_ratio=0.01, ppo_clip_value=0.01, value_loss_coeff=2.0
    )
    ratios = results[0][0].ratios
    assert ((ratios < 0.99) | (ratios > 1.01)).any()
    assert_same(results)


def test_deviations_at_their_bounds_are_the_same():
    assert_same(both_ways(NUMBERS, exploration_loss="entropy", adaptive_stddev=False, initial_stddev=2e4))


@pytest.mark.parametrize(
    ("changes", "obs_space", "action_space"),
    [
        ({"kl_loss_coeff": 0.1}, VECTOR, THREE_ACTIONS),
        ({"exploration_loss": "entropy"}, MASKED, THREE_ACTIONS),
        ({"exploration_loss": "entropy"}, VECTOR, spaces.MultiDiscrete([2, 3])),
    ],
    ids=["KL loss", "masks", "several heads"],
)
def test_everything_else_is_left_to_torch(changes, obs_space, action_space):
    cfg = make_cfg(**changes)
    learner = make_learner(cfg, obs_space, action_space)
    batch = make_batch(learner, obs_space)
    valids = np.ones(batch.arrays["rewards"].shape, bool)
    data, _ = to_training_data(batch, learner._layout, valids, torch.device("cpu"))
    assert not objectives.can_derive_losses(learner.model, data, cfg)
