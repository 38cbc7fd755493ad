"""GAE against numbers worked out by hand, a scalar reference, and its two limits in lambda."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sample_factory.rl.gae import gae
from sample_factory.rl.returns import backward_recurrence, bootstrap_time_outs


def random_batch(seed: int, n: int, t: int, *, ends: float = 0.2, invalid: float = 0.2) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "rewards": torch.randn(n, t, generator=g),
        "values": torch.randn(n, t + 1, generator=g),
        "dones": torch.rand(n, t, generator=g) < ends,
        "valids": torch.rand(n, t, generator=g) >= invalid,
    }


def reference(*, rewards, values, dones, valids, gamma, gae_lambda):
    """The sum of discounted TD errors, written out for each step."""
    n_rows, n_steps = rewards.shape
    advantages = torch.zeros(n_rows, n_steps)
    for n in range(n_rows):
        for t in range(n_steps):
            weight = 1.0
            for k in range(t, n_steps):
                if not valids[n, k]:
                    break
                bootstrap = 0.0 if dones[n, k] else gamma * float(values[n, k + 1])
                advantages[n, t] += weight * (float(rewards[n, k]) + bootstrap - float(values[n, k]))
                if dones[n, k]:
                    break
                weight *= gamma * gae_lambda
    return advantages


def flags(*rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


batches = st.builds(
    random_batch,
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 9),
    ends=st.sampled_from([0.0, 0.3]),
)


def test_numbers_worked_out_by_hand():
    # gamma = 0.5, lambda = 0.5; the first episode ends with step 1.
    # t=2: delta = 3 + 0.5*4 - 3 = 2      A_2 = 2
    # t=1: delta = 2 - 2 = 0 (done)       A_1 = 0
    # t=0: delta = 1 + 0.5*2 - 5 = -3     A_0 = -3 + 0.25*0 = -3
    result = gae(
        rewards=torch.tensor([[1.0, 2.0, 3.0]]),
        values=torch.tensor([[5.0, 2.0, 3.0, 4.0]]),
        dones=flags([0, 1, 0]),
        valids=flags([1, 1, 1]),
        gamma=0.5,
        gae_lambda=0.5,
    )
    torch.testing.assert_close(result.advantages, torch.tensor([[-3.0, 0.0, 2.0]]))
    torch.testing.assert_close(result.targets, torch.tensor([[2.0, 2.0, 5.0]]))


def test_lambda_weighs_later_errors_by_hand():
    # gamma = 1, lambda = 0.5, values 0: deltas are the rewards. A_2 = 4, A_1 = 2 + 2 = 4, A_0 = 1 + 2 = 3.
    result = gae(
        rewards=torch.tensor([[1.0, 2.0, 4.0]]),
        values=torch.zeros(1, 4),
        dones=flags([0, 0, 0]),
        valids=flags([1, 1, 1]),
        gamma=1.0,
        gae_lambda=0.5,
    )
    torch.testing.assert_close(result.advantages, torch.tensor([[3.0, 4.0, 4.0]]))


def test_a_time_out_bootstraps_from_the_invalid_row_with_the_final_observation():
    # A_0 = 1 + 0.5*8 - 2 = 3; row 1 (final observation) is 0; A_2 = 7 + 0.5*2 - 3 = 5.
    result = gae(
        rewards=torch.tensor([[1.0, math.nan, 7.0]]),
        values=torch.tensor([[2.0, 8.0, 3.0, 2.0]]),
        dones=flags([0, 1, 0]),
        valids=flags([1, 0, 1]),
        gamma=0.5,
        gae_lambda=0.9,
    )
    torch.testing.assert_close(result.advantages, torch.tensor([[3.0, 0.0, 5.0]]))
    torch.testing.assert_close(result.targets, torch.tensor([[5.0, 8.0, 8.0]]))


@settings(max_examples=40, deadline=None)
@given(batches, st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_equals_the_scalar_reference(batch, gae_lambda):
    result = gae(**batch, gamma=0.9, gae_lambda=gae_lambda)
    expected = reference(**batch, gamma=0.9, gae_lambda=gae_lambda)
    torch.testing.assert_close(result.advantages, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(result.targets, expected + batch["values"][:, :-1], rtol=1e-4, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_lambda_one_gives_monte_carlo_returns_minus_values(seed, n_steps):
    batch = random_batch(seed, 3, n_steps, invalid=0.0)
    result = gae(**batch, gamma=0.9, gae_lambda=1.0)
    returns = batch["values"][:, -1]
    for t in reversed(range(n_steps)):
        returns = batch["rewards"][:, t] + 0.9 * returns * ~batch["dones"][:, t]
        torch.testing.assert_close(
            result.advantages[:, t], returns - batch["values"][:, t], rtol=1e-4, atol=1e-5
        )


@settings(max_examples=30, deadline=None)
@given(batches)
def test_lambda_zero_gives_one_step_td_errors(batch):
    result = gae(**batch, gamma=0.9, gae_lambda=0.0)
    values = batch["values"]
    td_errors = batch["rewards"] + 0.9 * values[:, 1:] * ~batch["dones"] - values[:, :-1]
    torch.testing.assert_close(result.advantages, td_errors * batch["valids"])


@settings(max_examples=30, deadline=None)
@given(batches, st.randoms(use_true_random=False))
def test_permuting_trajectories_permutes_results(batch, random):
    order = list(range(len(batch["rewards"])))
    random.shuffle(order)
    straight = gae(**batch, gamma=0.9, gae_lambda=0.95)
    permuted = gae(**{k: v[order] for k, v in batch.items()}, gamma=0.9, gae_lambda=0.95)
    assert torch.equal(straight.advantages[order], permuted.advantages)


@pytest.mark.parametrize("barrier", ["done", "invalid"])
def test_the_recursion_does_not_cross(barrier):
    batch = random_batch(3, 1, 6, ends=0.0, invalid=0.0)
    if barrier == "done":
        batch["dones"][0, 3] = True
    else:
        batch["valids"][0, 3] = False
    before = gae(**batch, gamma=0.9, gae_lambda=0.95)
    batch["rewards"][0, 4:] += 10.0
    batch["values"][0, 4:] -= 5.0
    after = gae(**batch, gamma=0.9, gae_lambda=0.95)
    assert torch.equal(before.advantages[0, :4], after.advantages[0, :4])
    assert not torch.equal(before.advantages[0, 4:], after.advantages[0, 4:])


def test_the_value_at_an_invalid_step_reaches_the_step_before_it_only():
    batch = random_batch(4, 1, 5, ends=0.0, invalid=0.0)
    batch["valids"][0, 3] = False
    before = gae(**batch, gamma=0.5, gae_lambda=0.0)
    batch["values"][0, 3] += 1.0
    after = gae(**batch, gamma=0.5, gae_lambda=0.0)
    change = after.advantages - before.advantages
    torch.testing.assert_close(change, torch.tensor([[0.0, 0.0, 0.5, 0.0, 0.0]]))


def test_wrong_shapes_are_refused():
    batch = random_batch(0, 2, 3)
    batch["rewards"] = batch["rewards"].t()
    with pytest.raises(ValueError, match=r"rewards has shape \(3, 2\), expected \(2, 3\)"):
        gae(**batch, gamma=0.9, gae_lambda=0.95)


def test_backward_recurrence_by_hand():
    # x_2 = 3, x_1 = 2 + 10*3 = 32, x_0 = 1 + 2*32 = 65; the last decay multiplies x_T = 0.
    sums = backward_recurrence(
        increments=torch.tensor([[1.0, 2.0, 3.0]]), decays=torch.tensor([[2.0, 10.0, 99.0]])
    )
    assert sums.tolist() == [[65.0, 32.0, 3.0]]


def test_backward_recurrence_leaves_its_arguments_alone():
    increments = torch.tensor([[1.0], [2.0], [3.0]]).t()  # a view whose transpose is contiguous
    backward_recurrence(increments=increments, decays=torch.ones(1, 3))
    assert increments.tolist() == [[1.0, 2.0, 3.0]]


def test_a_time_out_without_final_observation_adds_the_discounted_value_to_its_reward():
    rewards = bootstrap_time_outs(
        rewards=torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        values=torch.tensor([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]]),
        time_outs=flags([0, 1], [0, 0]),
        gamma=0.5,
    )
    assert rewards.tolist() == [[1.0, 12.0], [3.0, 4.0]]
