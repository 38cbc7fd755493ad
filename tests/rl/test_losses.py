"""Each loss against numbers worked out by hand, its gradient, and its behaviour when nothing is valid."""

import math

import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from sample_factory.rl.distributions import make_distribution
from sample_factory.rl.losses import (
    entropy_loss,
    exploration_loss,
    importance_ratio,
    kl_loss,
    masked_mean,
    normalize_advantages,
    policy_loss,
    symmetric_kl_loss,
    value_loss,
)

NONE_VALID = torch.zeros(3, dtype=torch.bool)
ALL_VALID = torch.ones(3, dtype=torch.bool)


def test_ratio_is_the_quotient_of_probabilities():
    ratio = importance_ratio(
        log_prob=torch.tensor([0.5, 0.2]).log(), behaviour_log_prob=torch.tensor([0.25, 0.4]).log()
    )
    torch.testing.assert_close(ratio, torch.tensor([2.0, 0.5]))


def test_ratio_is_clamped_and_its_gradient_stays_finite():
    log_prob = torch.tensor([500.0, -500.0, 0.0], requires_grad=True)
    ratio = importance_ratio(log_prob=log_prob, behaviour_log_prob=torch.zeros(3))
    torch.testing.assert_close(ratio, torch.tensor([20.0, 0.05, 1.0]))
    ratio.sum().backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [0.0, 0.0, 1.0]


def test_masked_mean_counts_valid_steps_only():
    valids = torch.tensor([True, False, True])
    assert masked_mean(torch.tensor([1.0, math.nan, 4.0]), valids).item() == 2.5


def test_masked_mean_of_nothing_is_zero():
    assert masked_mean(torch.tensor([1.0, 2.0, 3.0]), NONE_VALID).item() == 0.0


def test_masks_must_be_boolean():
    with pytest.raises(ValueError, match=r"valids has dtype torch\.float32"):
        masked_mean(torch.zeros(3), torch.ones(3))


def test_policy_loss_by_hand():
    # clip_ratio = 1: ratios are kept within [1/2, 2].
    # r=3, A=1:   min(3, 2) = 2            r=3, A=-1:   min(-3, -2) = -3
    # r=0.1, A=1: min(0.1, 0.5) = 0.1      r=0.1, A=-2: min(-0.2, -1) = -1
    # invalid: ignored.                    loss = -(2 - 3 + 0.1 - 1) / 4 = 0.475
    loss = policy_loss(
        ratios=torch.tensor([3.0, 3.0, 0.1, 0.1, 1.0]),
        advantages=torch.tensor([1.0, -1.0, 1.0, -2.0, 1000.0]),
        valids=torch.tensor([True, True, True, True, False]),
        clip_ratio=1.0,
    )
    torch.testing.assert_close(loss, torch.tensor(0.475))


@pytest.mark.parametrize(
    ("ratio", "advantage", "gradient"),
    [
        (1.0, 2.0, -2.0),  # better than expected: more of it
        (1.0, -2.0, 2.0),  # worse than expected: less of it
        (1.5, 2.0, 0.0),  # already much more probable: enough
        (0.5, -2.0, 0.0),  # already much less probable: enough
        (0.5, 2.0, -2.0),  # moved the wrong way: come back
        (1.5, -2.0, 2.0),
    ],
)
def test_gradient_of_the_policy_loss(ratio, advantage, gradient):
    ratios = torch.tensor([ratio], requires_grad=True)
    policy_loss(
        ratios=ratios, advantages=torch.tensor([advantage]), valids=torch.tensor([True]), clip_ratio=0.1
    ).backward()
    assert ratios.grad is not None
    assert ratios.grad.item() == gradient


def test_value_loss_by_hand():
    # clip_value = 1, old value 0.
    # V=3, target 2: max((3-2)^2, (1-2)^2) = 1     V=3, target 4:  max(1, (1-4)^2) = 9
    # V=0.5, target 2: both 2.25                   invalid: ignored.   0.5 * (1 + 9 + 2.25) / 3
    loss = value_loss(
        values=torch.tensor([3.0, 3.0, 0.5, 7.0]),
        old_values=torch.zeros(4),
        targets=torch.tensor([2.0, 4.0, 2.0, -100.0]),
        valids=torch.tensor([True, True, True, False]),
        clip_value=1.0,
        coeff=0.5,
    )
    torch.testing.assert_close(loss, torch.tensor(0.5 * 12.25 / 3))


def test_a_value_that_moved_towards_its_target_further_than_the_clip_gets_no_gradient():
    values = torch.tensor([3.0], requires_grad=True)
    value_loss(
        values=values,
        old_values=torch.zeros(1),
        targets=torch.tensor([4.0]),
        valids=torch.tensor([True]),
        clip_value=1.0,
        coeff=1.0,
    ).backward()
    assert values.grad is not None
    assert values.grad.item() == 0.0


def test_gradient_of_the_value_loss_is_right_numerically():
    g = torch.Generator().manual_seed(0)
    values = torch.randn(6, generator=g, dtype=torch.float64, requires_grad=True)
    old, targets = torch.randn(2, 6, generator=g, dtype=torch.float64)
    valids = torch.tensor([True, True, False, True, True, True])

    def loss(v):
        return value_loss(values=v, old_values=old, targets=targets, valids=valids, clip_value=0.5, coeff=0.7)

    assert gradcheck(loss, (values,))


def test_entropy_loss_by_hand():
    loss = entropy_loss(
        entropies=torch.tensor([1.0, 2.0, 9.0]), valids=torch.tensor([True, True, False]), coeff=0.1
    )
    torch.testing.assert_close(loss, torch.tensor(-0.15))


def test_symmetric_kl_loss_by_hand():
    loss = symmetric_kl_loss(
        divergences=torch.tensor([1.0, 2.0, 9.0]), valids=torch.tensor([True, True, False]), coeff=0.1
    )
    torch.testing.assert_close(loss, torch.tensor(0.15))


def test_symmetric_kl_loss_stops_at_thirty():
    divergences = torch.tensor([10.0, 20.0, 90.0], requires_grad=True)
    loss = symmetric_kl_loss(divergences=divergences, valids=ALL_VALID, coeff=0.5)
    loss.backward()
    assert loss.item() == 15.0
    assert divergences.grad is not None
    assert divergences.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_symmetric_kl_loss_that_is_not_finite_counts_as_zero(bad):
    loss = symmetric_kl_loss(divergences=torch.tensor([1.0, bad, 1.0]), valids=ALL_VALID, coeff=0.5)
    assert loss.item() == 0.0


def test_kl_loss_by_hand():
    loss = kl_loss(
        divergences=torch.tensor([1.0, 3.0, 9.0]), valids=torch.tensor([True, True, False]), coeff=0.5
    )
    torch.testing.assert_close(loss, torch.tensor(1.0))


@pytest.mark.parametrize("kind", ["entropy", "symmetric_kl"])
def test_exploration_losses_push_towards_the_uniform_policy(kind):
    logits = torch.tensor([[2.0, 0.0, 0.0]], requires_grad=True)
    exploration_loss(
        kind=kind,
        distribution=make_distribution(spaces.Discrete(3), logits),
        valids=torch.tensor([True]),
        coeff=1.0,
    ).backward()
    assert logits.grad is not None
    assert logits.grad[0, 0] > 0
    assert logits.grad[0, 1] < 0


def test_exploration_loss_by_name_equals_the_mean_over_the_distribution():
    distribution = make_distribution(spaces.Discrete(2), torch.tensor([[0.0, 0.0], [50.0, 0.0]]))
    loss = exploration_loss(
        kind="entropy", distribution=distribution, valids=torch.tensor([True, False]), coeff=2.0
    )
    torch.testing.assert_close(loss, torch.tensor(-2.0 * math.log(2)))


def test_zero_coefficient_needs_no_exploration_loss_even_for_continuous_actions():
    distribution = make_distribution(spaces.Box(-1, 1, (2,)), torch.zeros(3, 4))
    loss = exploration_loss(kind="symmetric_kl", distribution=distribution, valids=ALL_VALID, coeff=0.0)
    assert loss.item() == 0.0


def test_unknown_exploration_loss_is_refused():
    distribution = make_distribution(spaces.Discrete(2), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="--exploration_loss=curiosity is not known"):
        exploration_loss(kind="curiosity", distribution=distribution, valids=ALL_VALID, coeff=1.0)


def test_no_valid_step_gives_zero_loss_and_zero_gradient():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    zeros = torch.zeros(3)
    total = (
        policy_loss(ratios=x, advantages=zeros + 1, valids=NONE_VALID, clip_ratio=0.1)
        + value_loss(values=x, old_values=zeros, targets=zeros, valids=NONE_VALID, clip_value=1.0, coeff=1.0)
        + entropy_loss(entropies=x, valids=NONE_VALID, coeff=1.0)
        + symmetric_kl_loss(divergences=x, valids=NONE_VALID, coeff=1.0)
        + kl_loss(divergences=x, valids=NONE_VALID, coeff=1.0)
    )
    total.backward()
    assert total.item() == 0.0
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_normalised_advantages_by_hand():
    # Valid: 1, 3 -> mean 2, standard deviation 1.
    normalised = normalize_advantages(
        advantages=torch.tensor([1.0, 3.0, 500.0]), valids=torch.tensor([True, True, False])
    )
    assert normalised.tolist() == [-1.0, 1.0, 0.0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 100.0), st.floats(-50.0, 50.0))
def test_normalised_advantages_have_mean_zero_and_stddev_one_over_valid_steps(seed, scale, shift):
    g = torch.Generator().manual_seed(seed)
    advantages = torch.randn(4, 8, generator=g) * scale + shift
    valids = torch.rand(4, 8, generator=g) < 0.8
    valids[0, :2] = True
    chosen = normalize_advantages(advantages=advantages, valids=valids)[valids]
    assert abs(chosen.mean().item()) < 1e-3
    assert abs(chosen.std(correction=0).item() - 1.0) < 1e-3


@pytest.mark.parametrize("valids", [ALL_VALID, NONE_VALID, torch.tensor([True, False, False])])
def test_equal_advantages_normalise_to_zero(valids):
    normalised = normalize_advantages(advantages=torch.full((3,), 2.0), valids=valids)
    assert normalised.tolist() == [0.0, 0.0, 0.0]
