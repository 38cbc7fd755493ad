"""Generalised advantage estimation.

Used by the learner with `--with_vtrace=False`. Invariant: nothing that happens at or after an invalid step,
or after the end of an episode, reaches the steps before it, except the value of that step as a bootstrap.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sample_factory.rl.returns import backward_recurrence
from sample_factory.rl.shapes import check_trajectories


class GaeReturns(NamedTuple):
    """Constants for the losses, both `[N, T]`."""

    targets: Tensor
    advantages: Tensor


@torch.no_grad()
def gae(
    *, rewards: Tensor, values: Tensor, dones: Tensor, valids: Tensor, gamma: float, gae_lambda: float
) -> GaeReturns:
    """Advantages as exponentially weighted sums of TD errors, and the lambda-returns as value targets.

    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation",
    equation 16, cut at the end of the trajectory. The targets are advantages + values, i.e. TD(lambda).

    Args:
        rewards: `[N, T]`.
        values: `[N, T + 1]`; the last column values the observation after the last step.
        dones: `[N, T]`, boolean: the next row starts a new episode.
        valids: `[N, T]`, boolean; an invalid step gets its value as the target and advantage 0.
        gamma: discount factor.
        gae_lambda: 0 trusts the values, 1 trusts the rewards.
    """
    check_trajectories(values, dones=dones, valids=valids, rewards=rewards)
    values_now, values_next = values[:, :-1], values[:, 1:]
    discounts = gamma * (~dones).to(values.dtype)

    # `where` rather than a product: rewards of invalid steps may be anything, also NaN.
    td_errors = torch.where(valids, rewards + discounts * values_next - values_now, 0.0)
    decays = torch.where(valids, gae_lambda * discounts, 0.0)
    advantages = backward_recurrence(increments=td_errors, decays=decays)
    return GaeReturns(targets=values_now + advantages, advantages=advantages)
