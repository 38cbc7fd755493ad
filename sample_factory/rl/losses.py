"""Losses of APPO: clipped policy and value losses, exploration bonuses, KL penalty.

Used by the learner on minibatches of any shape. Invariant: every loss is a scalar, the mean over valid steps
(0 when there are none), to be minimised. Steps that are not valid must still hold finite numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sample_factory.rl.distributions import ActionDistribution
from sample_factory.rl.shapes import check_bool, check_shapes

MIN_RATIO, MAX_RATIO = 0.05, 20.0
MAX_SYMMETRIC_KL = 30.0
MIN_ADVANTAGE_STDDEV = 1e-7


def importance_ratio(*, log_prob: Tensor, behaviour_log_prob: Tensor) -> Tensor:
    """Probability of the actions now over the probability when they were chosen, within [0.05, 20].

    Schulman et al. 2017, "Proximal policy optimization algorithms", r_t of section 3.
    """
    check_shapes(log_prob.shape, behaviour_log_prob=behaviour_log_prob)
    # Clamped before exp(): the gradient of a clamped infinity would be 0 * inf = NaN.
    return (log_prob - behaviour_log_prob).clamp(math.log(MIN_RATIO), math.log(MAX_RATIO)).exp()


def masked_mean(values: Tensor, valids: Tensor) -> Tensor:
    """Mean over valid steps, 0 when there are none."""
    check_shapes(values.shape, valids=valids)
    check_bool(valids=valids)
    if bool(valids.all()):  # as a rule: then there is nothing to leave out, neither now nor in the gradient
        return values.mean()
    return torch.where(valids, values, 0.0).sum() / valids.sum().clamp(min=1)


@torch.no_grad()
def normalize_advantages(*, advantages: Tensor, valids: Tensor) -> Tensor:
    """Advantages with mean 0 and standard deviation 1 over valid steps; 0 at the others."""
    mean = masked_mean(advantages, valids)
    centred = torch.where(valids, advantages - mean, 0.0)
    stddev = masked_mean(centred.square(), valids).sqrt().clamp(min=MIN_ADVANTAGE_STDDEV)
    return centred / stddev


def policy_loss(*, ratios: Tensor, advantages: Tensor, valids: Tensor, clip_ratio: float) -> Tensor:
    """Clipped surrogate objective.

    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7, with the interval
    [1 / (1 + clip_ratio), 1 + clip_ratio]: doubling and halving a probability are equally large changes.
    """
    check_shapes(ratios.shape, advantages=advantages)
    clipped = ratios.clamp(1.0 / (1.0 + clip_ratio), 1.0 + clip_ratio)
    return -masked_mean(torch.minimum(ratios * advantages, clipped * advantages), valids)


def value_loss(
    *, values: Tensor, old_values: Tensor, targets: Tensor, valids: Tensor, clip_value: float, coeff: float
) -> Tensor:
    """Squared error of the values, pessimistic about moves further than `clip_value` from the old values.

    The value counterpart of PPO's clipping (Engstrom et al. 2020, "Implementation matters in deep policy
    gradients", section 3): the larger of the two errors counts.
    """
    check_shapes(values.shape, old_values=old_values, targets=targets)
    clipped = old_values + (values - old_values).clamp(-clip_value, clip_value)
    errors = torch.maximum((values - targets).square(), (clipped - targets).square())
    return coeff * masked_mean(errors, valids)


def entropy_loss(*, entropies: Tensor, valids: Tensor, coeff: float) -> Tensor:
    """Rewards entropy.

    Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning", section 4.
    """
    return -coeff * masked_mean(entropies, valids)


def symmetric_kl_loss(*, divergences: Tensor, valids: Tensor, coeff: float) -> Tensor:
    """Penalises the symmetric KL divergence from the uniform policy; unlike entropy it grows without bound.

    A mean above 30 gives no gradient, and one that is not finite gives 0: a policy that has become almost
    deterministic must not drown the other losses.
    """
    mean = masked_mean(divergences, valids)
    if not torch.isfinite(mean):
        return mean.new_zeros(())
    return coeff * mean.clamp(max=MAX_SYMMETRIC_KL)


def exploration_loss(*, kind: str, distribution: ActionDistribution, valids: Tensor, coeff: float) -> Tensor:
    """The loss that `--exploration_loss` names; a zero coefficient computes nothing.

    Args:
        kind: "entropy" or "symmetric_kl".
        distribution: of the actions, batch shape as `valids`.
        valids: boolean.
        coeff: `--exploration_loss_coeff`.
    """
    if kind not in ("entropy", "symmetric_kl"):
        raise ValueError(f"--exploration_loss={kind} is not known: use entropy or symmetric_kl.")
    if coeff == 0.0:
        return torch.zeros((), device=valids.device)
    if kind == "entropy":
        return entropy_loss(entropies=distribution.entropy(), valids=valids, coeff=coeff)
    return symmetric_kl_loss(divergences=distribution.symmetric_kl_with_uniform(), valids=valids, coeff=coeff)


def kl_loss(*, divergences: Tensor, valids: Tensor, coeff: float) -> Tensor:
    """Penalises the divergence from the policy that chose the actions.

    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 8 with a fixed coefficient and
    KL(new || old).
    """
    return coeff * masked_mean(divergences, valids)
