"""What V-trace and GAE share: the backward recurrence over a trajectory, and rewards at time-outs.

Used by `vtrace`, `gae` and the learner. Invariant: results are constants; no gradient flows through them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sample_factory.rl.shapes import check_bool, check_shapes


@torch.no_grad()
def backward_recurrence(*, increments: Tensor, decays: Tensor) -> Tensor:
    """Solves `x_t = increments_t + decays_t * x_{t+1}` with `x_T = 0` along the last axis of `[N, T]`."""
    check_shapes(increments.shape, decays=decays)
    # Time first, so that each of the T steps is a single fused operation on contiguous memory.
    sums = increments.t().clone(memory_format=torch.contiguous_format)
    sum_rows = sums.unbind()
    decay_rows = decays.t().contiguous().unbind()
    for t in range(len(sum_rows) - 2, -1, -1):
        sum_rows[t].addcmul_(decay_rows[t], sum_rows[t + 1])
    return sums.t().contiguous()


@torch.no_grad()
def bootstrap_time_outs(*, rewards: Tensor, values: Tensor, time_outs: Tensor, gamma: float) -> Tensor:
    """Adds `gamma * V_t` to the rewards of steps that ran out of time.

    For environments that reset themselves and do not give the observation a time-out ended on: V of the last
    observation seen stands in for V of the unseen one (partial-episode bootstrapping of Pardo et al. 2018,
    "Time Limits in Reinforcement Learning", with V(s_t) for V(s_{t+1})). Such a step has `dones` set as well.

    Args:
        rewards: `[N, T]`.
        values: `[N, T + 1]`.
        time_outs: `[N, T]`, boolean.
        gamma: discount factor.
    """
    n, t = rewards.shape
    check_shapes((n, t), time_outs=time_outs)
    check_shapes((n, t + 1), values=values)
    check_bool(time_outs=time_outs)
    return torch.where(time_outs, rewards + gamma * values[:, :-1], rewards)
