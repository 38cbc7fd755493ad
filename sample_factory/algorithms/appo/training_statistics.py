"""Numbers about the last minibatch of an iteration, under the names of the `train/` summaries."""

from __future__ import annotations

import torch
from torch import Tensor

from sample_factory.algorithms.appo.objective import Objective
from sample_factory.model.actor_critic import ActorCritic
from sample_factory.rl.distributions import DiagonalGaussian


@torch.no_grad()
def minibatch_scalars(
    objective: Objective, model: ActorCritic, optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """Losses, advantages, divergences and ratios of valid steps."""
    data = objective.data
    valids = data.valids
    values = objective.values[:, : valids.shape[1]]
    scalars: dict[str, Tensor] = {name: loss for name, loss in objective.components().items()}
    scalars["loss"] = objective.total
    scalars["value"] = values[valids].mean()
    scalars["entropy"] = objective.distribution.entropy()[valids].mean()
    advantages = data.advantages[valids]
    scalars["adv_min"], scalars["adv_max"] = advantages.min(), advantages.max()
    scalars["adv_std"] = advantages.std(correction=0)
    scalars["max_abs_logprob"] = objective.distribution.log_prob(data.actions)[valids].abs().max()
    scalars["grad_norm"] = _gradient_norm(model)
    scalars["adam_max_second_moment"] = _largest_second_moment(optimizer)
    divergences = objective.distribution.kl(objective.old_distribution)[valids]
    scalars["kl_divergence"], scalars["kl_divergence_max"] = divergences.mean(), divergences.max()
    changes = (values - data.values)[valids].abs()
    scalars["value_delta"], scalars["value_delta_max"] = changes.mean(), changes.max()
    ratios = objective.ratios[valids]
    scalars["ratio_mean"] = (1.0 - ratios).abs().mean()
    scalars["ratio_min"], scalars["ratio_max"] = ratios.min(), ratios.max()
    scalars.update(_gaussian_scalars(objective, valids))
    return {name: float(value) for name, value in scalars.items()}


def fraction_clipped(ratios: Tensor, clip_ratio: float) -> Tensor:
    """Share of steps whose probability ratio left the interval in which PPO learns from it."""
    return ((ratios < 1 / (1 + clip_ratio)) | (ratios > 1 + clip_ratio)).float().mean()


def _gradient_norm(model: ActorCritic) -> Tensor:
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.nn.utils.get_total_norm(grads) if grads else torch.zeros(())


def _largest_second_moment(optimizer: torch.optim.Optimizer) -> Tensor:
    moments = [state["exp_avg_sq"].max() for state in optimizer.state.values() if "exp_avg_sq" in state]
    return torch.stack(moments).max() if moments else torch.zeros(())


def _gaussian_scalars(objective: Objective, valids: Tensor) -> dict[str, Tensor]:
    distribution = objective.distribution
    if not isinstance(distribution, DiagonalGaussian):
        return {}
    scalars = {}
    for name, values in (
        ("action_mean", distribution.means[valids]),
        ("action_log_std", distribution.log_stddevs[valids]),
        ("action_stddev", distribution.stddevs[valids]),
    ):
        scalars[name if name == "action_mean" else f"{name}_mean"] = values.mean()
        scalars[f"{name}_min"], scalars[f"{name}_max"] = values.min(), values.max()
    return scalars
