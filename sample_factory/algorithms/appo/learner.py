"""The learner: one policy's network, optimiser and counters, and the gradient step.

Knows nothing of processes, slots or files: batches come in, weights and numbers come out, and its whole state
goes into a checkpoint and comes back.

Invariant: the policy version counts SGD steps; a step whose loss or gradient is not finite changes nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.moments import moments_of, take_moments
from sample_factory.algorithms.appo.objective import (
    Objective,
    can_derive_losses,
    compute_objective,
    with_gae,
)
from sample_factory.algorithms.appo.training_data import (
    Provenance,
    TrainingData,
    cut_into_segments,
    minibatches,
    to_training_data,
)
from sample_factory.algorithms.appo.training_statistics import fraction_clipped, minibatch_scalars
from sample_factory.algorithms.appo.trajectories import TrajectoryLayout
from sample_factory.config.config import Config
from sample_factory.model.actor_critic import ActorCritic
from sample_factory.model.cpc import CpcLoss
from sample_factory.model.numpy_training import NumpyTraining
from sample_factory.model.observations import MAIN_KEY
from sample_factory.rl.losses import masked_mean
from sample_factory.rl.lr_schedules import KlBounds, LrSchedule, make_lr_schedule
from sample_factory.rl.optimizers import FlatAdam, Lamb

log = logging.getLogger("sample_factory")

NO_PROGRESS = 1e-6  # a further epoch that changes the policy loss by less than this is not worth its time
LAG_BINS = 64
_KL_SCHEDULES = ("kl_adaptive_minibatch", "kl_adaptive_epoch")


class NonFiniteTrainingError(RuntimeError):
    """Losses or gradients have not been finite for too many steps in a row."""

    is_final = True


@dataclass
class IterationResult:
    """What one training iteration did."""

    frames: int
    samples: int
    sgd_steps: int
    lags: np.ndarray  # of the steps this policy chose
    scalars: dict[str, float] = field(default_factory=dict)  # filled when asked for

    def lag_histogram(self) -> list[int]:
        """Steps by policy lag; the last bin also counts everything beyond it."""
        return np.bincount(np.clip(self.lags, 0, LAG_BINS - 1), minlength=LAG_BINS).tolist()


class Learner:
    """Trains one policy on batches of its trajectories."""

    def __init__(
        self,
        policy_id: int,
        cfg: Config,
        model: ActorCritic,
        layout: TrajectoryLayout,
        device: torch.device,
        seed: int = 0,
    ):
        self.policy_id = policy_id
        self.cfg = cfg
        self.model = model.to(device)
        self.device = device
        self.policy_version = 0
        self.env_steps = 0
        self.samples = 0
        self.skipped_steps = 0  # SGD steps left out because something was not finite
        self._skipped_in_a_row = 0
        self._layout = layout
        self._generator = torch.Generator().manual_seed(seed)
        self._aux_loss = _make_aux_loss(cfg, self.model).to(device) if cfg.use_cpc else None
        self._parameters = dict(self.model.named_parameters())
        self._optimizer = _make_optimizer(cfg, self.model, self._aux_parameters())
        self._network = NumpyTraining(self.model) if isinstance(self._optimizer, FlatAdam) else None
        self._lr_schedule = _make_schedule(cfg)
        self._needs_kl = cfg.lr_schedule in _KL_SCHEDULES
        if cfg.compile_model:
            self.model.compile_encoders()
        self._extra_losses: dict[str, float] = {}  # of the last minibatch

    def _aux_parameters(self) -> list[nn.Parameter]:
        return list(self._aux_loss.parameters()) if self._aux_loss is not None else []

    def train(
        self, batch: Batch, after_step: Callable[[], None], with_statistics: bool = False
    ) -> IterationResult:
        """One iteration: `ppo_epochs` passes over the batch.

        Args:
            batch: whole trajectories.
            after_step: called after every SGD step, with `policy_version` already raised.
            with_statistics: also fill `scalars`, which costs time.
        """
        cfg = self.cfg
        provenance = self._provenance(batch)
        result = self._count(batch, provenance)
        if not provenance.valids.any():
            return result
        data, rnn_states = to_training_data(batch, self._layout, provenance.valids, self.device)
        network = self._network if can_derive_losses(self.model, data, cfg) else None
        data = self._prepare(data, batch, rnn_states, network)
        last = self._run_epochs(data, network, result, after_step)
        if with_statistics and last is not None:
            result.scalars = (
                minibatch_scalars(last, self.model, self._optimizer)
                | self._extra_losses
                | {
                    "fraction_clipped": float(
                        fraction_clipped(last.ratios[last.data.valids], cfg.ppo_clip_ratio)
                    ),
                    "valids_fraction": float(provenance.valids.mean()),
                    "same_policy_fraction": float(provenance.own.mean()),
                    "lr": self._lr_schedule.current_lr(),
                    "num_sgd_steps": float(result.sgd_steps),
                    "skipped_steps": float(self.skipped_steps),
                }
            )
        return result

    def count(self, batch: Batch) -> IterationResult:
        """Counts a batch as consumed; all that happens to it with `--sampler_only=True`."""
        return self._count(batch, self._provenance(batch))

    def _count(self, batch: Batch, provenance: Provenance) -> IterationResult:
        frames = int(batch.arrays["frames"][provenance.own].sum())
        samples = int(provenance.own.sum())
        self.env_steps += frames
        self.samples += samples
        return IterationResult(frames, samples, sgd_steps=0, lags=provenance.lags)

    def _provenance(self, batch: Batch) -> Provenance:
        return Provenance.of(batch, self.policy_id, self.policy_version, self.cfg.max_policy_lag)

    def _prepare(
        self, data: TrainingData, batch: Batch, rnn_states: Tensor, network: NumpyTraining | None
    ) -> TrainingData:
        """What all epochs share: statistics, returns (except V-trace's), and observations ready for numpy."""
        cfg = self.cfg
        steps = data.rewards.shape[1]
        if self.model.obs_normalizers:
            self.model.update_obs_normalizers({k: v[:, :steps] for k, v in data.obs.items()}, data.valids)
        if network is not None:
            data = replace(data, obs=self.model.observations(data.obs))
        if cfg.with_vtrace:
            return data
        final_obs = {key: torch.from_numpy(array).to(self.device) for key, array in batch.final_obs.items()}
        bootstrap = self._bootstrap(final_obs, rnn_states[:, -1], network)
        data = with_gae(data, bootstrap, cfg, self.model.returns_normalizer)
        return cut_into_segments(data, rnn_states, cfg.recurrence)

    @torch.no_grad()
    def _bootstrap(
        self, final_obs: dict[str, Tensor], rnn_states: Tensor, network: NumpyTraining | None
    ) -> Tensor:
        """Values `[N]` of the observations after the last step, in units of reward."""
        if network is None:
            return self.model.act(final_obs, rnn_states).values
        prepared = self.model.observations(final_obs)[MAIN_KEY]
        values = torch.from_numpy(network.forward(prepared.numpy())[1])
        normalizer = self.model.returns_normalizer
        return values if normalizer is None else normalizer.denormalize(values)

    def _run_epochs(
        self,
        data: TrainingData,
        network: NumpyTraining | None,
        result: IterationResult,
        after_step: Callable[[], None],
    ) -> Objective | None:
        cfg = self.cfg
        count = cfg.num_batches_per_iteration
        shuffle = count > 1 if cfg.shuffle_minibatches is None else cfg.shuffle_minibatches
        last, previous_loss = None, None
        for _ in range(cfg.ppo_epochs):
            policy_losses, divergences = [], []
            for minibatch in minibatches(data, count, shuffle, self._generator):
                if not bool(minibatch.valids.any()):
                    continue
                objective = compute_objective(self.model, minibatch, cfg, network)
                kl = self._mean_kl(objective)
                if self._sgd_step(objective, kl):
                    result.sgd_steps += 1
                    after_step()
                policy_losses.append(float(objective.policy_loss.detach()))
                divergences.append(kl)
                last = objective
            self._lr_schedule.after_epoch(sum(divergences) / len(divergences))
            loss = sum(policy_losses) / len(policy_losses)
            if previous_loss is not None and abs(loss - previous_loss) < NO_PROGRESS:
                break
            previous_loss = loss
        return last

    def _mean_kl(self, objective: Objective) -> float:
        if not self._needs_kl:
            return 0.0
        with torch.no_grad():
            return float(
                masked_mean(objective.distribution.kl(objective.old_distribution), objective.data.valids)
            )

    def _sgd_step(self, objective: Objective, kl: float) -> bool:
        """Steps the optimiser; returns False, and changes nothing, if anything is not finite."""
        total = objective.total
        components = objective.components()
        if self._aux_loss is not None:
            components["aux_loss"] = self._compute_aux_loss(objective)
            total = total + components["aux_loss"]
        self._forget_gradients()
        if not math.isfinite(float(total.detach())):
            return self._skip(_name_not_finite(components))
        if objective.write_gradients is None:
            total.backward()
        else:
            objective.write_gradients()
        if not math.isfinite(self._clip_gradients()):
            return self._skip(_name_not_finite(self._gradients()))
        for group in self._optimizer.param_groups:
            group["lr"] = self._lr_schedule.current_lr()
        self._optimizer.step()
        self._lr_schedule.after_minibatch(kl)
        self.policy_version += 1
        self._skipped_in_a_row = 0
        return True

    def _compute_aux_loss(self, objective: Objective) -> Tensor:
        assert self._aux_loss is not None and objective.output is not None
        loss: Tensor = self._aux_loss(
            core_outputs=objective.output.core_outputs,
            encodings=objective.output.encodings,
            actions=objective.data.actions,
            dones=objective.data.dones,
            valids=objective.data.valids,
            generator=self._generator,
        )
        self._extra_losses["aux_loss"] = float(loss.detach())
        return loss

    def _clip_gradients(self) -> float:
        """Limits gradients to `--max_grad_norm`; returns the norm before, not finite if any of them isn't."""
        limit = self.cfg.max_grad_norm if self.cfg.max_grad_norm > 0 else float("inf")
        if isinstance(self._optimizer, FlatAdam):
            return self._optimizer.clip_grad_norm(limit)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), limit)
        if self._aux_loss is not None:  # clipped apart; an infinity in either norm survives the addition
            norm = norm + torch.nn.utils.clip_grad_norm_(self._aux_parameters(), limit)
        return float(norm)

    def _forget_gradients(self) -> None:
        """As the optimiser's `zero_grad`, without hooks for profilers that take half as long as Adam."""
        if isinstance(self._optimizer, FlatAdam):
            self._optimizer.zero_grad()
            return
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _gradients(self) -> dict[str, Tensor]:
        named = list(self._parameters.items())
        if self._aux_loss is not None:
            named += [(f"aux_loss.{name}", p) for name, p in self._aux_loss.named_parameters()]
        return {f"gradient of {name}": p.grad for name, p in named if p.grad is not None}

    def _skip(self, culprit: str) -> bool:
        self._forget_gradients()
        self.skipped_steps += 1
        self._skipped_in_a_row += 1
        log.error("Policy %d: %s is not finite; the SGD step is skipped.", self.policy_id, culprit)
        if self._skipped_in_a_row >= self.cfg.nan_guard_max_skips:
            raise NonFiniteTrainingError(
                f"{self._skipped_in_a_row} SGD steps in a row were not finite, last {culprit}; the last good "
                f"checkpoint is kept. Try a smaller --learning_rate (now {self.cfg.learning_rate:g}) or "
                f"--max_grad_norm (now {self.cfg.max_grad_norm:g})."
            )
        return False

    def set_hyper_parameters(self, values: Mapping[str, Any]) -> None:
        """Changes settings of this policy from the next iteration on, as population-based training does."""
        for name, value in values.items():
            self.cfg[name] = value
        self._lr_schedule.set_learning_rate(self.cfg.learning_rate)
        for group in self._optimizer.param_groups:
            group["betas"] = (self.cfg.adam_beta1, self.cfg.adam_beta2)

    def take_weights(self, state: Mapping[str, Any]) -> None:
        """Takes over another policy's network and optimiser.

        The version jumps so far that everything under way, which the old weights chose, counts as too old.
        """
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.policy_version += self.cfg.max_policy_lag + 1

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's memory of past gradients of the network; empty before the first step."""
        return moments_of(self._optimizer, self._parameters)

    def catch_up(
        self, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor], policy_version: int
    ) -> None:
        """Takes what was published after the checkpoint it was loaded from had been saved.

        An auxiliary loss's own parameters are not published and stay those of the checkpoint.
        """
        self.model.load_state_dict(weights)
        take_moments(self._optimizer, self._parameters, moments)
        progress = self._lr_schedule.state_dict()
        if "updates" in progress:
            progress["updates"] += policy_version - self.policy_version
            self._lr_schedule.load_state_dict(progress)
        self.policy_version = policy_version

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed session needs, as tensors, numbers and strings."""
        state: dict[str, Any] = {
            "train_step": self.policy_version,
            "env_steps": self.env_steps,
            "samples": self.samples,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "lr_schedule": self._lr_schedule.state_dict(),
            "rng": self._generator.get_state(),
            "torch_rng": torch.get_rng_state(),
        }
        if self._aux_loss is not None:
            state["aux_loss_module"] = self._aux_loss.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues where a checkpoint was taken."""
        self.policy_version = int(state["train_step"])
        self.env_steps = int(state["env_steps"])
        self.samples = int(state.get("samples", 0))
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._lr_schedule.load_state_dict(state.get("lr_schedule", {}))
        if "rng" in state:
            self._generator.set_state(state["rng"].cpu())
            torch.set_rng_state(state["torch_rng"].cpu())
        if self._aux_loss is not None and "aux_loss_module" in state:
            self._aux_loss.load_state_dict(state["aux_loss_module"])


def _make_aux_loss(cfg: Config, model: ActorCritic) -> CpcLoss:
    return CpcLoss(cfg, model.action_space, model.core_out_size, model.encoder_out_size)


def _make_optimizer(cfg: Config, model: ActorCritic, others: list[nn.Parameter]) -> torch.optim.Optimizer:
    """For the network's parameters, then the others; `FlatAdam` where the network trains in numpy."""
    parameters = [*model.parameters(), *others]
    betas = (cfg.adam_beta1, cfg.adam_beta2)
    if cfg.optimizer == "lamb":
        return Lamb(parameters, lr=cfg.learning_rate, betas=betas, eps=cfg.adam_eps)
    if not others and not cfg.compile_model and NumpyTraining.fits(model):
        return FlatAdam(parameters, lr=cfg.learning_rate, betas=betas, eps=cfg.adam_eps)
    return torch.optim.Adam(parameters, lr=cfg.learning_rate, betas=betas, eps=cfg.adam_eps, fused=True)


def _make_schedule(cfg: Config) -> LrSchedule:
    steps_per_batch = cfg.batch_size * cfg.num_batches_per_iteration
    frameskip = cfg.env_frameskip or 1
    iterations = cfg.train_for_env_steps // (steps_per_batch * frameskip)
    return make_lr_schedule(
        cfg.lr_schedule,
        learning_rate=cfg.learning_rate,
        kl_bounds=KlBounds(cfg.lr_schedule_kl_threshold, cfg.lr_adaptive_min, cfg.lr_adaptive_max),
        total_updates=iterations * cfg.num_batches_per_iteration * cfg.ppo_epochs,
    )


def _name_not_finite(tensors: dict[str, Tensor]) -> str:
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            return name
    return "the total loss"
