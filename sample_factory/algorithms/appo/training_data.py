"""A batch as the learner sees it: tensors on its device, and the minibatches it is cut into.

Minibatches are made of segments: `recurrence` consecutive steps of one trajectory. With one minibatch per
batch nothing is shuffled and nothing is copied.

Invariant: every step of the batch is in exactly one minibatch of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.trajectories import TrajectoryLayout
from sample_factory.rl.hand_derived import PpoSteps
from sample_factory.rl.losses import normalize_advantages


@dataclass(frozen=True)
class TrainingData:
    """Steps `[M, R]` of M segments with R steps each, and what is known about them."""

    obs: dict[str, Tensor]  # [M, R or R+1, ...]
    rnn_states: Tensor  # [M, state]: before the first step of each segment
    actions: Tensor  # [M, R, actions]
    action_params: Tensor  # [M, R, parameters] of the policy that acted
    log_probs: Tensor  # [M, R] of the policy that acted
    values: Tensor  # [M, R] of the policy that acted
    rewards: Tensor
    dones: Tensor
    time_outs: Tensor
    valids: Tensor
    advantages: Tensor  # [M, R]; with V-trace computed per minibatch, zeros until then
    targets: Tensor

    @property
    def num_segments(self) -> int:
        """M."""
        return int(self.rewards.shape[0])

    @cached_property
    def known_steps(self) -> PpoSteps:
        """What losses derived by hand need to know of the steps; all epochs over the same data share it."""
        advantages = normalize_advantages(advantages=self.advantages, valids=self.valids)
        return PpoSteps(
            advantages=advantages.flatten().numpy(),
            old_values=self.values.flatten().numpy(),
            targets=self.targets.flatten().numpy(),
            weights=(self.valids / self.valids.sum()).flatten().numpy(),
        )


@dataclass(frozen=True)
class Provenance:
    """Which steps of a batch this policy may learn from, and how old they are."""

    valids: np.ndarray  # bool [N, T]
    own: np.ndarray  # bool [N, T]: chosen by this policy
    lags: np.ndarray  # int64, of the steps it chose

    @classmethod
    def of(cls, batch: Batch, policy_id: int, policy_version: int, max_lag: int) -> Provenance:
        """Compares the versions that acted with the learner's."""
        own = batch.arrays["policy_ids"] == policy_id
        lags = policy_version - batch.arrays["policy_versions"]
        return cls(valids=own & (lags < max_lag), own=own, lags=lags[own])


def to_training_data(
    batch: Batch, layout: TrajectoryLayout, valids: np.ndarray, device: torch.device
) -> tuple[TrainingData, Tensor]:
    """Tensors of a whole batch; also the recurrent states of all T+1 rows."""

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device, non_blocking=True)

    outputs = tensor(batch.arrays["outputs"])
    sizes = [layout.num_actions, layout.num_action_parameters, 1, 1]
    actions, action_params, log_probs, values = outputs.split(sizes, dim=-1)
    rnn_states = tensor(batch.arrays["rnn_states"])
    zeros = torch.zeros(values.shape[:2], device=device)
    data = TrainingData(
        obs={key: tensor(array) for key, array in batch.obs.items()},
        rnn_states=rnn_states[:, 0],
        actions=actions,
        action_params=action_params,
        log_probs=log_probs.squeeze(-1),
        values=values.squeeze(-1),
        rewards=tensor(batch.arrays["rewards"]),
        dones=tensor(batch.arrays["dones"]),
        time_outs=tensor(batch.arrays["time_outs"]),
        valids=tensor(valids),
        advantages=zeros,
        targets=zeros,
    )
    return data, rnn_states


def cut_into_segments(data: TrainingData, all_rnn_states: Tensor, recurrence: int) -> TrainingData:
    """The same steps as segments of `recurrence` steps; a T+1st observation is dropped."""
    trajectories, steps = data.rewards.shape
    obs = {key: value[:, :steps] for key, value in data.obs.items()}
    if recurrence == steps:
        return replace(data, obs=obs)

    def cut(value: Tensor) -> Tensor:
        return value.reshape(trajectories * steps // recurrence, recurrence, *value.shape[2:])

    cut_fields = {name: cut(getattr(data, name)) for name in _STEP_FIELDS}
    starts = all_rnn_states[:, :steps:recurrence]
    return replace(
        data,
        obs={key: cut(value) for key, value in obs.items()},
        rnn_states=starts.reshape(-1, starts.shape[-1]),
        **cut_fields,
    )


_STEP_FIELDS = (
    "actions",
    "action_params",
    "log_probs",
    "values",
    "rewards",
    "dones",
    "time_outs",
    "valids",
    "advantages",
    "targets",
)


def minibatches(
    data: TrainingData, count: int, shuffle: bool, generator: torch.Generator
) -> Iterator[TrainingData]:
    """Cuts the segments into `count` minibatches of equal size."""
    if count == 1 and not shuffle:
        yield data
        return
    if shuffle:
        order = torch.randperm(data.num_segments, generator=generator)
    else:
        order = torch.arange(data.num_segments)
    for chosen in order.chunk(count):
        yield select(data, chosen)


def select(data: TrainingData, segments: Tensor) -> TrainingData:
    """The given segments, copied."""
    return replace(
        data,
        obs={key: value[segments] for key, value in data.obs.items()},
        rnn_states=data.rnn_states[segments],
        **{name: getattr(data, name)[segments] for name in _STEP_FIELDS},
    )
