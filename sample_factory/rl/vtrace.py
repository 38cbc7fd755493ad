"""V-trace: off-policy corrected value targets and policy-gradient advantages.

Used by the learner with `--with_vtrace=True`. Invariant: nothing that happens at or after an invalid step,
or after the end of an episode, reaches the steps before it, except the value of that step as a bootstrap.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sample_factory.rl.returns import backward_recurrence
from sample_factory.rl.shapes import check_trajectories


class VTraceReturns(NamedTuple):
    """Constants for the losses, both `[N, T]`."""

    targets: Tensor
    advantages: Tensor


@torch.no_grad()
def vtrace(  # noqa: PLR0913 -- these are the symbols of the paper's equation
    *,
    ratios: Tensor,
    rewards: Tensor,
    values: Tensor,
    dones: Tensor,
    valids: Tensor,
    gamma: float,
    rho_clip: float,
    c_clip: float,
) -> VTraceReturns:
    """Value targets v_t and advantages rho_t (r_t + gamma v_{t+1} - V_t).

    Espeholt et al. 2018, "IMPALA", equation 1 in the recursive form of remark 1, and the policy gradient of
    section 4.2; lambda = 1.

    A time-out whose final observation is known takes one more row: that row holds the final observation, is
    invalid and has `dones` set, and its value bootstraps the step before it.

    Args:
        ratios: `[N, T]`, probability of the action now over the probability when it was chosen.
        rewards: `[N, T]`.
        values: `[N, T + 1]`; the last column values the observation after the last step.
        dones: `[N, T]`, boolean: the next row starts a new episode.
        valids: `[N, T]`, boolean; an invalid step gets its value as the target and advantage 0.
        gamma: discount factor.
        rho_clip: upper bound of rho; decides which policy the targets belong to.
        c_clip: upper bound of c; decides how fast they get there.
    """
    check_trajectories(values, dones=dones, valids=valids, ratios=ratios, rewards=rewards)
    values_now, values_next = values[:, :-1], values[:, 1:]
    discounts = gamma * (~dones).to(values.dtype)
    rhos = ratios.clamp(max=rho_clip)

    # `where` rather than a product: rewards of invalid steps may be anything, also NaN.
    td_errors = torch.where(valids, rhos * (rewards + discounts * values_next - values_now), 0.0)
    traces = torch.where(valids, discounts * ratios.clamp(max=c_clip), 0.0)
    targets = values_now + backward_recurrence(increments=td_errors, decays=traces)

    targets_next = torch.cat((targets[:, 1:], values[:, -1:]), dim=1)
    advantages = torch.where(valids, rhos * (rewards + discounts * targets_next - values_now), 0.0)
    return VTraceReturns(targets=targets, advantages=advantages)
