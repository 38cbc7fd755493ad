"""What the learner minimises on a minibatch.

Puts the pieces of `rl` together: returns (V-trace per minibatch from current values, or GAE once per batch
from the values of acting), then the policy, value, exploration and KL losses.

Invariant: reads the model, changes only the statistics of its return normaliser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sample_factory.algorithms.appo.training_data import TrainingData
from sample_factory.config.config import Config
from sample_factory.model.actor_critic import ActorCritic, EvaluateOutput
from sample_factory.model.numpy_training import NumpyTraining
from sample_factory.model.observations import ACTION_MASK_KEY, MAIN_KEY
from sample_factory.rl import losses
from sample_factory.rl.distributions import ActionDistribution
from sample_factory.rl.gae import GaeReturns, gae
from sample_factory.rl.hand_derived import (
    PpoLosses,
    PpoSettings,
    can_derive,
    hand_derived,
    importance_ratios,
    ppo_losses,
)
from sample_factory.rl.normalisation import RunningMeanStd
from sample_factory.rl.returns import bootstrap_time_outs
from sample_factory.rl.vtrace import VTraceReturns, vtrace


@dataclass(frozen=True, eq=False)
class Objective:
    """The losses of one minibatch, and what the summaries tell about it."""

    total: Tensor  # what is minimised, auxiliary losses aside
    policy_loss: Tensor
    value_loss: Tensor
    exploration_loss: Tensor
    kl_loss: Tensor
    data: TrainingData  # with advantages and targets
    action_params: Tensor
    values: Tensor
    ratios: Tensor
    model: ActorCritic
    output: EvaluateOutput | None  # in torch's graph; None without one
    write_gradients: Callable[[], None] | None = None  # of `total`, where there is no graph

    @cached_property
    def distribution(self) -> ActionDistribution:
        """Over actions, now; not every iteration asks for it."""
        return _distribution(self.model, self.data, self.action_params)

    @cached_property
    def old_distribution(self) -> ActionDistribution:
        """Over actions, of the policy that acted."""
        return _distribution(self.model, self.data, self.data.action_params)

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


def _distribution(model: ActorCritic, data: TrainingData, params: Tensor) -> ActionDistribution:
    steps = data.rewards.shape[1]
    return model.action_distribution(params[:, :steps], {k: v[:, :steps] for k, v in data.obs.items()})


def compute_objective(
    model: ActorCritic, data: TrainingData, cfg: Config, network: NumpyTraining | None = None
) -> Objective:
    """Evaluates a minibatch with the current network and computes every loss.

    Args:
        model: the network.
        data: the minibatch; with `network`, its observations are prepared ones.
        cfg: the settings.
        network: the same network in numpy, if `can_derive_losses`.
    """
    if network is not None:
        return numpy_objective(model, data, cfg, network)
    output = model.evaluate(data.obs, data.rnn_states, data.dones)
    if can_derive_losses(model, data, cfg):
        return hand_derived_objective(model, data, output, cfg)
    return differentiated_objective(model, data, output, cfg)


def differentiated_objective(
    model: ActorCritic, data: TrainingData, output: EvaluateOutput, cfg: Config
) -> Objective:
    """Every loss, differentiated by torch; for any action space, device and setting."""
    steps = data.rewards.shape[1]
    distribution = _distribution(model, data, output.action_params)
    ratios = losses.importance_ratio(
        log_prob=distribution.log_prob(data.actions), behaviour_log_prob=data.log_probs
    )
    if cfg.with_vtrace:
        data = with_vtrace(data, output.values, ratios, cfg, model.returns_normalizer)
    advantages = losses.normalize_advantages(advantages=data.advantages, valids=data.valids)
    policy_loss = losses.policy_loss(
        ratios=ratios, advantages=advantages, valids=data.valids, clip_ratio=cfg.ppo_clip_ratio
    )
    value_loss = losses.value_loss(
        values=output.values[:, :steps],
        old_values=data.values,
        targets=data.targets,
        valids=data.valids,
        clip_value=cfg.ppo_clip_value,
        coeff=cfg.value_loss_coeff,
    )
    exploration_loss = losses.exploration_loss(
        kind=cfg.exploration_loss,
        distribution=distribution,
        valids=data.valids,
        coeff=cfg.exploration_loss_coeff,
    )
    kl_loss = _kl_loss(model, distribution, data, cfg)
    return Objective(
        total=policy_loss + value_loss + exploration_loss + kl_loss,
        policy_loss=policy_loss,
        value_loss=value_loss,
        exploration_loss=exploration_loss,
        kl_loss=kl_loss,
        data=data,
        action_params=output.action_params,
        values=output.values,
        ratios=ratios,
        model=model,
        output=output,
    )


def _kl_loss(model: ActorCritic, new: ActionDistribution, data: TrainingData, cfg: Config) -> Tensor:
    if cfg.kl_loss_coeff == 0.0:
        return torch.zeros((), device=data.rewards.device)
    divergences = new.kl(_distribution(model, data, data.action_params))
    return losses.kl_loss(divergences=divergences, valids=data.valids, coeff=cfg.kl_loss_coeff)


def can_derive_losses(model: ActorCritic, data: TrainingData, cfg: Config) -> bool:
    """Whether `hand_derived_objective` covers this case."""
    return (
        data.rewards.device.type == "cpu"
        and cfg.kl_loss_coeff == 0.0
        and ACTION_MASK_KEY not in data.obs
        and can_derive(model.action_space, cfg.exploration_loss)
    )


def hand_derived_objective(
    model: ActorCritic, data: TrainingData, output: EvaluateOutput, cfg: Config
) -> Objective:
    """The same losses with their gradient computed by hand: see `rl.hand_derived`."""
    steps = data.rewards.shape[1]
    params, values = output.action_params.detach(), output.values.detach()
    objective, found = _derive(model, data, params, values, cfg)
    total: Tensor = _WithKnownGradient.apply(
        output.action_params[:, :steps].flatten(0, 1), output.values[:, :steps].flatten(), found
    )
    return replace(objective, total=total, output=output)


def numpy_objective(model: ActorCritic, data: TrainingData, cfg: Config, network: NumpyTraining) -> Objective:
    """The same without torch's graph, for observations that are prepared already."""
    obs = data.obs[MAIN_KEY]
    shape, steps = obs.shape[:2], data.rewards.shape[1]
    all_params, all_values = network.forward(obs.flatten(0, 1).numpy())
    params, values = torch.from_numpy(all_params.T).unflatten(0, shape), torch.from_numpy(all_values)
    objective, found = _derive(model, data, params, values.unflatten(0, shape), cfg)

    def write_gradients() -> None:
        of_params, of_values = np.zeros_like(all_params), np.zeros_like(all_values)
        of_params.reshape(-1, *shape)[..., :steps] = found.of_params.T.reshape(-1, *data.rewards.shape)
        of_values.reshape(shape)[:, :steps] = found.of_values.reshape(data.rewards.shape)
        network.backward(of_params, of_values)

    return replace(objective, write_gradients=write_gradients)


def _derive(
    model: ActorCritic, data: TrainingData, params: Tensor, values: Tensor, cfg: Config
) -> tuple[Objective, PpoLosses]:
    """Losses for parameters `[M, T', K]` and values `[M, T']`, and their gradient with respect to these."""
    steps = data.rewards.shape[1]
    distribution = hand_derived(
        model.action_space, params[:, :steps].flatten(0, 1).numpy(), data.actions.flatten(0, 1).numpy()
    )
    importance = importance_ratios(distribution.log_prob(), data.log_probs.flatten().numpy())
    ratios = torch.from_numpy(importance.values).unflatten(0, data.rewards.shape)
    if cfg.with_vtrace:
        data = with_vtrace(data, values, ratios, cfg, model.returns_normalizer)
    settings = PpoSettings(
        clip_ratio=cfg.ppo_clip_ratio,
        clip_value=cfg.ppo_clip_value,
        value_loss_coeff=cfg.value_loss_coeff,
        exploration_loss=cfg.exploration_loss,
        exploration_loss_coeff=cfg.exploration_loss_coeff,
    )
    found = ppo_losses(
        distribution, importance, values[:, :steps].flatten().numpy(), data.known_steps, settings
    )
    objective = Objective(
        total=torch.tensor(float(found.policy_loss + found.value_loss + found.exploration_loss)),
        policy_loss=torch.tensor(float(found.policy_loss)),
        value_loss=torch.tensor(float(found.value_loss)),
        exploration_loss=torch.tensor(float(found.exploration_loss)),
        kl_loss=torch.zeros(()),
        data=data,
        action_params=params,
        values=values,
        ratios=ratios,
        model=model,
        output=None,
    )
    return objective, found


class _WithKnownGradient(torch.autograd.Function):
    """Puts losses whose gradient is known already into torch's graph."""

    @staticmethod
    def forward(ctx: Any, params: Tensor, values: Tensor, found: PpoLosses) -> Tensor:
        ctx.found = found
        return torch.tensor(float(found.policy_loss + found.value_loss + found.exploration_loss))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        factor = float(gradient)
        found = ctx.found
        of_params, of_values = torch.from_numpy(found.of_params), torch.from_numpy(found.of_values)
        if factor != 1.0:
            of_params, of_values = of_params * factor, of_values * factor
        return of_params, of_values, None
