"""V-trace against numbers worked out by hand, a scalar reference, and the identities of the paper."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sample_factory.rl.vtrace import vtrace

NO_CLIP = 1e6


def reference(*, ratios, rewards, values, dones, valids, gamma, rho_clip, c_clip):
    """One scalar at a time, from the definition v_t = V_t + sum over k of (product of traces) * delta_k."""
    n_rows, n_steps = rewards.shape
    targets, advantages = torch.zeros(n_rows, n_steps), torch.zeros(n_rows, n_steps)
    for n in range(n_rows):
        for t in range(n_steps):
            target, weight = float(values[n, t]), 1.0
            for k in range(t, n_steps):
                if not valids[n, k]:
                    break
                rho, c = min(rho_clip, float(ratios[n, k])), min(c_clip, float(ratios[n, k]))
                bootstrap = 0.0 if dones[n, k] else gamma * float(values[n, k + 1])
                target += weight * rho * (float(rewards[n, k]) + bootstrap - float(values[n, k]))
                if dones[n, k]:
                    break
                weight *= gamma * c
            targets[n, t] = target
        for t in range(n_steps):
            if valids[n, t]:
                after = float(values[n, -1]) if t == n_steps - 1 else float(targets[n, t + 1])
                rho = min(rho_clip, float(ratios[n, t]))
                bootstrap = 0.0 if dones[n, t] else gamma * after
                advantages[n, t] = rho * (float(rewards[n, t]) + bootstrap - float(values[n, t]))
    return targets, advantages


def random_batch(seed: int, n: int, t: int, *, ends: float = 0.2, invalid: float = 0.2) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "ratios": torch.rand(n, t, generator=g) * 3,
        "rewards": torch.randn(n, t, generator=g),
        "values": torch.randn(n, t + 1, generator=g),
        "dones": torch.rand(n, t, generator=g) < ends,
        "valids": torch.rand(n, t, generator=g) >= invalid,
    }


def flags(*rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


batches = st.builds(
    random_batch,
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 9),
    ends=st.sampled_from([0.0, 0.3]),
)


def test_on_policy_numbers_worked_out_by_hand():
    # gamma = 0.5, all ratios 1.
    # t=2: delta = 3 + 0.5*4 - 3 = 2          v_2 = 3 + 2 = 5            A_2 = 3 + 0.5*4 - 3 = 2
    # t=1: delta = 2 + 0.5*3 - 2 = 1.5        v_1 = 2 + 1.5 + 0.5*2 = 4.5   A_1 = 2 + 0.5*5 - 2 = 2.5
    # t=0: delta = 1 + 0.5*2 - 1 = 1          v_0 = 1 + 1 + 0.5*2.5 = 3.25  A_0 = 1 + 0.5*4.5 - 1 = 2.25
    result = vtrace(
        ratios=torch.ones(1, 3),
        rewards=torch.tensor([[1.0, 2.0, 3.0]]),
        values=torch.tensor([[1.0, 2.0, 3.0, 4.0]]),
        dones=flags([0, 0, 0]),
        valids=flags([1, 1, 1]),
        gamma=0.5,
        rho_clip=1.0,
        c_clip=1.0,
    )
    torch.testing.assert_close(result.targets, torch.tensor([[3.25, 4.5, 5.0]]))
    torch.testing.assert_close(result.advantages, torch.tensor([[2.25, 2.5, 2.0]]))


def test_clipped_off_policy_numbers_worked_out_by_hand():
    # gamma = 0.5, rho_clip = 1.5, c_clip = 1. Ratios 0.5, 2 -> rho 0.5, 1.5 and c 0.5, 1.
    # t=1: delta = 1.5*(2 + 0.5*4 - 2) = 3      v_1 = 2 + 3 = 5       A_1 = 1.5*(2 + 0.5*4 - 2) = 3
    # t=0: delta = 0.5*(1 + 0.5*2 - 1) = 0.5    v_0 = 1 + 0.5 + 0.5*0.5*(5 - 2) = 2.25
    #      A_0 = 0.5*(1 + 0.5*5 - 1) = 1.25
    result = vtrace(
        ratios=torch.tensor([[0.5, 2.0]]),
        rewards=torch.tensor([[1.0, 2.0]]),
        values=torch.tensor([[1.0, 2.0, 4.0]]),
        dones=flags([0, 0]),
        valids=flags([1, 1]),
        gamma=0.5,
        rho_clip=1.5,
        c_clip=1.0,
    )
    torch.testing.assert_close(result.targets, torch.tensor([[2.25, 5.0]]))
    torch.testing.assert_close(result.advantages, torch.tensor([[1.25, 3.0]]))


def test_a_time_out_bootstraps_from_the_invalid_row_with_the_final_observation():
    # Step 0 runs out of time; row 1 holds the final observation (V = 8), invalid and done; row 2 is the next
    # episode. v_0 = r_0 + 0.5 * 8 = 5; row 1 keeps its value; row 2: v = 7 + 0.5 * 2 = 8, A = 8 - 3 = 5.
    result = vtrace(
        ratios=torch.ones(1, 3),
        rewards=torch.tensor([[1.0, 100.0, 7.0]]),
        values=torch.tensor([[2.0, 8.0, 3.0, 2.0]]),
        dones=flags([0, 1, 0]),
        valids=flags([1, 0, 1]),
        gamma=0.5,
        rho_clip=1.0,
        c_clip=1.0,
    )
    torch.testing.assert_close(result.targets, torch.tensor([[5.0, 8.0, 8.0]]))
    torch.testing.assert_close(result.advantages, torch.tensor([[3.0, 0.0, 5.0]]))


def test_what_an_invalid_step_holds_does_not_matter_even_if_it_is_nan():
    batch = random_batch(1, 2, 4, invalid=0.0)
    batch["valids"][0, 2] = False
    clean = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    batch["rewards"][0, 2] = math.nan
    batch["ratios"][0, 2] = math.nan
    dirty = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    assert torch.equal(clean.targets, dirty.targets)
    assert torch.equal(clean.advantages, dirty.advantages)


@settings(max_examples=40, deadline=None)
@given(batches, st.sampled_from([1.0, 1.5, NO_CLIP]), st.sampled_from([0.8, 1.0, NO_CLIP]))
def test_equals_the_scalar_reference(batch, rho_clip, c_clip):
    result = vtrace(**batch, gamma=0.9, rho_clip=rho_clip, c_clip=c_clip)
    targets, advantages = reference(**batch, gamma=0.9, rho_clip=rho_clip, c_clip=c_clip)
    torch.testing.assert_close(result.targets, targets, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(result.advantages, advantages, rtol=1e-4, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_on_policy_targets_are_discounted_n_step_returns(seed, n_steps):
    batch = random_batch(seed, 3, n_steps, invalid=0.0)
    batch["ratios"] = torch.ones(3, n_steps)
    result = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    returns = batch["values"][:, -1]
    for t in reversed(range(n_steps)):
        returns = batch["rewards"][:, t] + 0.9 * returns * ~batch["dones"][:, t]
        torch.testing.assert_close(result.targets[:, t], returns, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            result.advantages[:, t], returns - batch["values"][:, t], rtol=1e-4, atol=1e-5
        )


@settings(max_examples=30, deadline=None)
@given(batches, st.randoms(use_true_random=False))
def test_permuting_trajectories_permutes_results(batch, random):
    order = list(range(len(batch["rewards"])))
    random.shuffle(order)
    straight = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    permuted = vtrace(**{k: v[order] for k, v in batch.items()}, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    assert torch.equal(straight.targets[order], permuted.targets)
    assert torch.equal(straight.advantages[order], permuted.advantages)


@pytest.mark.parametrize("barrier", ["done", "invalid"])
def test_the_recursion_does_not_cross(barrier):
    batch = random_batch(3, 1, 6, ends=0.0, invalid=0.0)
    if barrier == "done":
        batch["dones"][0, 3] = True
    else:
        batch["valids"][0, 3] = False
    before = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    batch["rewards"][0, 4:] += 10.0
    batch["values"][0, 4:] -= 5.0
    after = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    assert torch.equal(before.targets[0, :4], after.targets[0, :4])
    assert torch.equal(before.advantages[0, :4], after.advantages[0, :4])
    assert not torch.equal(before.targets[0, 4:], after.targets[0, 4:])


def test_results_are_constants():
    batch = random_batch(0, 2, 3)
    batch["values"].requires_grad_()
    batch["ratios"].requires_grad_()
    result = vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    assert not result.targets.requires_grad
    assert not result.advantages.requires_grad


def test_arguments_are_left_as_they_were():
    batch = random_batch(0, 2, 3)
    copies = {k: v.clone() for k, v in batch.items()}
    vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
    assert all(torch.equal(batch[k], copies[k]) for k in batch)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("values", torch.zeros(2, 3), r"\(2, 3\), expected \(2, 2\)"),
        ("values", torch.zeros(2), r"values has shape \(2,\)"),
        ("rewards", torch.zeros(2, 1), r"rewards has shape \(2, 1\), expected \(2, 3\)"),
        ("dones", torch.zeros(2, 3), "dones has dtype torch.float32"),
        ("valids", torch.ones(2, 3, dtype=torch.int64), "valids has dtype torch.int64"),
    ],
)
def test_wrong_shapes_and_dtypes_are_refused(name, wrong, message):
    batch = random_batch(0, 2, 3)
    batch[name] = wrong
    with pytest.raises(ValueError, match=message):
        vtrace(**batch, gamma=0.9, rho_clip=1.0, c_clip=1.0)
