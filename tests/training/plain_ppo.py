"""PPO written as plainly as possible, to compare the learner with: loops over steps, scalars, no tricks.

The network is taken one step at a time through `act`, so packed sequences, masks and segments of the
learner's own code play no part here. Distributions are those of torch.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Categorical, Distribution, Normal, kl_divergence

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.learner import Learner
from sample_factory.config.config import Config
from sample_factory.model.actor_critic import ActorCritic


@dataclass
class PlainResult:
    """The network after training, and the losses of the last minibatch."""

    model: ActorCritic
    losses: dict[str, float] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class _Steps:
    """What the current network says about the steps of one segment, and what is known about them."""

    log_probs: list[Tensor]
    values: list[Tensor]  # one more than steps with V-trace
    entropies: list[Tensor]
    divergences: list[Tensor]
    places: list[tuple[int, int]]


class PlainPpo:
    """Trains a copy of a learner's network; minibatches are taken in order."""

    def __init__(self, learner: Learner):
        self.cfg: Config = learner.cfg
        self.policy_id, self.version = learner.policy_id, learner.policy_version
        self.num_actions = learner._layout.num_actions
        self.num_params = learner._layout.num_action_parameters
        self.model = copy.deepcopy(learner.model)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=self.cfg.learning_rate,
            betas=(self.cfg.adam_beta1, self.cfg.adam_beta2),
            eps=self.cfg.adam_eps,
        )

    def train(self, batch: Batch) -> PlainResult:
        cfg = self.cfg
        self.batch = batch
        self.obs = {key: torch.from_numpy(array) for key, array in batch.obs.items()}
        self.arrays = {name: torch.from_numpy(array) for name, array in batch.arrays.items()}
        num_trajectories, rollout = batch.arrays["rewards"].shape
        self.rollout = rollout
        length = rollout if cfg.with_vtrace else cfg.recurrence
        segments = [(n, t) for n in range(num_trajectories) for t in range(0, rollout, length)]
        if not cfg.with_vtrace:
            self._gae_of_whole_batch(num_trajectories)
        size = len(segments) // cfg.num_batches_per_iteration
        result = PlainResult(self.model)
        for _ in range(cfg.ppo_epochs):
            for start in range(0, len(segments), size):
                result.losses = self._sgd_step(segments[start : start + size], length)
        result.gradients = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        return result

    def _is_valid(self, n: int, t: int) -> bool:
        lag = self.version - int(self.arrays["policy_versions"][n, t])
        return int(self.arrays["policy_ids"][n, t]) == self.policy_id and lag < self.cfg.max_policy_lag

    def _old(self, n: int, t: int) -> tuple[Tensor, Tensor, float, float]:
        row = self.arrays["outputs"][n, t]
        actions, params = row[: self.num_actions], row[self.num_actions : self.num_actions + self.num_params]
        return actions, params, float(row[-2]), float(row[-1])

    def _reward(self, n: int, t: int, value: float) -> float:
        reward = float(self.arrays["rewards"][n, t])
        if self.cfg.value_bootstrap and bool(self.arrays["time_outs"][n, t]):
            reward += self.cfg.gamma * value
        return reward

    def _gae_of_whole_batch(self, num_trajectories: int) -> None:
        cfg = self.cfg
        self.advantages: dict[tuple[int, int], float] = {}
        self.targets: dict[tuple[int, int], float] = {}
        for n in range(num_trajectories):
            with torch.no_grad():
                last_obs = {key: value[n : n + 1, -1] for key, value in self.obs.items()}
                next_value = float(self.model.act(last_obs, self.arrays["rnn_states"][n : n + 1, -1]).values)
            advantage = 0.0
            for t in reversed(range(self.rollout)):
                value = self._old(n, t)[3]
                if not self._is_valid(n, t):
                    advantage = 0.0
                else:
                    discount = 0.0 if bool(self.arrays["dones"][n, t]) else cfg.gamma
                    error = self._reward(n, t, value) + discount * next_value - value
                    advantage = error + discount * cfg.gae_lambda * advantage
                self.advantages[n, t] = advantage
                self.targets[n, t] = value + advantage
                next_value = value

    def _vtrace_of_segment(self, n: int, values: list[float], ratios: list[float]) -> None:
        cfg = self.cfg
        next_target = values[-1]
        for t in reversed(range(self.rollout)):
            target, advantage = values[t], 0.0
            if self._is_valid(n, t):
                discount = 0.0 if bool(self.arrays["dones"][n, t]) else cfg.gamma
                rho, c = min(ratios[t], cfg.vtrace_rho), min(ratios[t], cfg.vtrace_c)
                reward = self._reward(n, t, values[t])
                advantage = rho * (reward + discount * next_target - values[t])
                error = rho * (reward + discount * values[t + 1] - values[t])
                target = values[t] + error + discount * c * (next_target - values[t + 1])
            self.advantages[n, t], self.targets[n, t] = advantage, target
            next_target = target

    def _segment(self, n: int, start: int, length: int) -> _Steps:
        steps = _Steps([], [], [], [], [])
        state = self.arrays["rnn_states"][n : n + 1, start]
        rows = length + 1 if self.cfg.with_vtrace else length
        for t in range(start, start + rows):
            obs = {key: value[n : n + 1, t] for key, value in self.obs.items()}
            output = self.model.act(obs, state)
            state = output.rnn_states
            steps.values.append(output.values[0])
            if t == start + length:
                break
            if bool(self.arrays["dones"][n, t]):
                state = torch.zeros_like(state)
            mask = obs.get("action_mask")
            actions, old_params, _, _ = self._old(n, t)
            new = _distribution(self.model.action_space, output.action_params, mask)
            old = _distribution(self.model.action_space, old_params[None], mask)
            steps.log_probs.append(_log_prob(new, actions))
            steps.entropies.append(new.entropy().sum())
            steps.divergences.append(kl_divergence(new, old).sum())
            steps.places.append((n, t))
        return steps

    def _sgd_step(self, segments: list[tuple[int, int]], length: int) -> dict[str, float]:
        cfg = self.cfg
        if cfg.with_vtrace:
            self.advantages, self.targets = {}, {}
        log_probs, values, entropies, divergences, places = [], [], [], [], []
        for n, start in segments:
            steps = self._segment(n, start, length)
            if cfg.with_vtrace:
                ratios = [
                    float(_ratio(log_prob.detach(), self._old(*place)[2]))
                    for log_prob, place in zip(steps.log_probs, steps.places, strict=True)
                ]
                self._vtrace_of_segment(n, [float(v.detach()) for v in steps.values], ratios)
            for i, place in enumerate(steps.places):
                if self._is_valid(*place):
                    log_probs.append(steps.log_probs[i])
                    values.append(steps.values[i])
                    entropies.append(steps.entropies[i])
                    divergences.append(steps.divergences[i])
                    places.append(place)
        advantages = torch.tensor([self.advantages[place] for place in places])
        advantages = (advantages - advantages.mean()) / max(1e-7, float(advantages.std(correction=0)))
        policy_terms, value_terms = [], []
        for i, place in enumerate(places):
            _, _, old_log_prob, old_value = self._old(*place)
            ratio, advantage = _ratio(log_probs[i], old_log_prob), advantages[i]
            clipped = ratio.clamp(1 / (1 + cfg.ppo_clip_ratio), 1 + cfg.ppo_clip_ratio)
            policy_terms.append(torch.minimum(ratio * advantage, clipped * advantage))
            near = old_value + (values[i] - old_value).clamp(-cfg.ppo_clip_value, cfg.ppo_clip_value)
            target = self.targets[place]
            value_terms.append(torch.maximum((values[i] - target) ** 2, (near - target) ** 2))
        losses = {
            "policy_loss": -torch.stack(policy_terms).mean(),
            "value_loss": cfg.value_loss_coeff * torch.stack(value_terms).mean(),
            "exploration_loss": -cfg.exploration_loss_coeff * torch.stack(entropies).mean(),
            "kl_loss": cfg.kl_loss_coeff * torch.stack(divergences).mean(),
        }
        self.optimizer.zero_grad()
        total = sum(losses.values())
        assert isinstance(total, Tensor)
        total.backward()
        if cfg.max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), cfg.max_grad_norm)
        self.optimizer.step()
        return {name: float(loss.detach()) for name, loss in losses.items()} | {"loss": float(total.detach())}


def _ratio(log_prob: Tensor, old_log_prob: float) -> Tensor:
    return (log_prob - old_log_prob).clamp(math.log(0.05), math.log(20.0)).exp()


def _distribution(
    space: spaces.Space, params: Tensor, mask: Tensor | None
) -> torch.distributions.Distribution:
    if isinstance(space, spaces.Discrete):
        if mask is not None:
            params = torch.where(mask.bool(), params, torch.tensor(-1e9))
        return Categorical(logits=params)
    assert isinstance(space, spaces.Box)
    means, log_stddevs = params.chunk(2, dim=-1)
    return Normal(means, log_stddevs.exp())


def _log_prob(distribution: Distribution, actions: Tensor) -> Tensor:
    if isinstance(distribution, Categorical):
        return distribution.log_prob(actions)[0]
    return distribution.log_prob(actions).sum()
