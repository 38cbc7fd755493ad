"""What the learner minimises on a minibatch.

Puts the pieces of `rl` together: returns (V-trace per minibatch from current values, or GAE once per batch
from the values of acting), then the policy, value, exploration and KL losses.

Invariant: reads the model, changes only the statistics of its return normaliser.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from sample_factory.algorithms.appo.training_data import TrainingData
from sample_factory.config.config import Config
from sample_factory.model.actor_critic import ActorCritic, EvaluateOutput
from sample_factory.rl import losses
from sample_factory.rl.distributions import ActionDistribution
from sample_factory.rl.gae import GaeReturns, gae
from sample_factory.rl.normalisation import RunningMeanStd
from sample_factory.rl.returns import bootstrap_time_outs
from sample_factory.rl.vtrace import VTraceReturns, vtrace


@dataclass(frozen=True, eq=False)
class Objective:
    """The losses of one minibatch, and what the summaries tell about it."""

    policy_loss: Tensor
    value_loss: Tensor
    exploration_loss: Tensor
    kl_loss: Tensor
    data: TrainingData  # with advantages and targets
    output: EvaluateOutput
    distribution: ActionDistribution
    model: ActorCritic
    ratios: Tensor

    @cached_property
    def old_distribution(self) -> ActionDistribution:
        """Of the policy that acted; not every iteration asks for it."""
        return old_distribution(self.model, self.data)

    @property
    def total(self) -> Tensor:
        """What is minimised, auxiliary losses aside."""
        return self.policy_loss + self.value_loss + self.exploration_loss + self.kl_loss

    def components(self) -> dict[str, Tensor]:
        """The losses by name."""
        return {
            "policy_loss": self.policy_loss,
            "value_loss": self.value_loss,
            "exploration_loss": self.exploration_loss,
            "kl_loss": self.kl_loss,
        }


def with_gae(
    data: TrainingData, bootstrap: Tensor, cfg: Config, normalizer: RunningMeanStd | None
) -> TrainingData:
    """Advantages and targets of a whole batch from the values seen while acting.

    Args:
        data: whole trajectories `[N, T]`.
        bootstrap: `[N]`, value of the observation after the last step, in units of reward.
        cfg: the settings.
        normalizer: of returns; learns from the targets and puts values and targets into its units.
    """
    values = torch.cat((data.values, bootstrap[:, None]), dim=1)
    rewards = _rewards(data, values, cfg)
    returns = gae(
        rewards=rewards,
        values=values,
        dones=data.dones,
        valids=data.valids,
        gamma=cfg.gamma,
        gae_lambda=cfg.gae_lambda,
    )
    return _with_returns(data, returns, normalizer)


def with_vtrace(
    data: TrainingData, values: Tensor, ratios: Tensor, cfg: Config, normalizer: RunningMeanStd | None
) -> TrainingData:
    """Advantages and targets of a minibatch from current values `[M, T+1]` and importance ratios `[M, T]`."""
    values = values.detach()
    if normalizer is not None:
        values = normalizer.denormalize(values)
    returns = vtrace(
        ratios=ratios.detach(),
        rewards=_rewards(data, values, cfg),
        values=values,
        dones=data.dones,
        valids=data.valids,
        gamma=cfg.gamma,
        rho_clip=cfg.vtrace_rho,
        c_clip=cfg.vtrace_c,
    )
    return _with_returns(data, returns, normalizer)


def _with_returns(
    data: TrainingData, returns: GaeReturns | VTraceReturns, normalizer: RunningMeanStd | None
) -> TrainingData:
    """The data with advantages, and with targets and old values in the units the value head is trained in."""
    targets, old_values = returns.targets, data.values
    if normalizer is not None:
        normalizer.update(targets[data.valids])
        targets, old_values = normalizer.normalize(targets), normalizer.normalize(old_values)
    return replace(data, advantages=returns.advantages, targets=targets, values=old_values)


def _rewards(data: TrainingData, values: Tensor, cfg: Config) -> Tensor:
    if not cfg.value_bootstrap:
        return data.rewards
    return bootstrap_time_outs(rewards=data.rewards, values=values, time_outs=data.time_outs, gamma=cfg.gamma)


def compute_objective(model: ActorCritic, data: TrainingData, cfg: Config) -> Objective:
    """Evaluates a minibatch with the current network and computes every loss."""
    steps = data.rewards.shape[1]
    output = model.evaluate(data.obs, data.rnn_states, data.dones)
    obs = {key: value[:, :steps] for key, value in data.obs.items()}
    distribution = model.action_distribution(output.action_params[:, :steps], obs)
    ratios = losses.importance_ratio(
        log_prob=distribution.log_prob(data.actions), behaviour_log_prob=data.log_probs
    )
    if cfg.with_vtrace:
        data = with_vtrace(data, output.values, ratios, cfg, model.returns_normalizer)
    advantages = losses.normalize_advantages(advantages=data.advantages, valids=data.valids)
    return Objective(
        policy_loss=losses.policy_loss(
            ratios=ratios, advantages=advantages, valids=data.valids, clip_ratio=cfg.ppo_clip_ratio
        ),
        value_loss=losses.value_loss(
            values=output.values[:, :steps],
            old_values=data.values,
            targets=data.targets,
            valids=data.valids,
            clip_value=cfg.ppo_clip_value,
            coeff=cfg.value_loss_coeff,
        ),
        exploration_loss=losses.exploration_loss(
            kind=cfg.exploration_loss,
            distribution=distribution,
            valids=data.valids,
            coeff=cfg.exploration_loss_coeff,
        ),
        kl_loss=_kl_loss(model, distribution, data, cfg),
        data=data,
        output=output,
        distribution=distribution,
        model=model,
        ratios=ratios,
    )


def old_distribution(model: ActorCritic, data: TrainingData) -> ActionDistribution:
    """The distribution from which the actions were drawn."""
    steps = data.rewards.shape[1]
    return model.action_distribution(data.action_params, {k: v[:, :steps] for k, v in data.obs.items()})


def _kl_loss(model: ActorCritic, new: ActionDistribution, data: TrainingData, cfg: Config) -> Tensor:
    if cfg.kl_loss_coeff == 0.0:
        return torch.zeros((), device=data.rewards.device)
    divergences = new.kl(old_distribution(model, data))
    return losses.kl_loss(divergences=divergences, valids=data.valids, coeff=cfg.kl_loss_coeff)
