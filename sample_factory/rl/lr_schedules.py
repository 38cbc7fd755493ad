"""Learning rates that change during training.

The learner asks `current_lr()` before each SGD step and reports after each minibatch and each epoch. State is
a small dict that goes into the checkpoint: progress only, never settings, so that a learning rate typed when
resuming counts. Invariant: a schedule changes nothing unless told of progress.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

KL_STEP = 1.5  # factor by which the KL-adaptive schedules move the learning rate


class LrSchedule(ABC):
    """Learning rate as a function of the progress of training."""

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate

    def current_lr(self) -> float:
        """The learning rate of the next SGD step."""
        return self._learning_rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """Replaces the rate to start from, as PBT does; takes effect at once."""
        self._learning_rate = learning_rate

    @abstractmethod
    def after_minibatch(self, kl: float) -> None:
        """Reports an SGD step and the mean KL divergence it saw."""

    @abstractmethod
    def after_epoch(self, mean_kl: float) -> None:
        """Reports an epoch and the mean KL divergence over its minibatches."""

    @abstractmethod
    def state_dict(self) -> dict[str, float]:
        """Progress, for the checkpoint."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continues where `state_dict` was taken; what another kind of schedule left there is ignored."""


class ConstantLr(LrSchedule):
    """The same learning rate always."""

    def after_minibatch(self, kl: float) -> None:
        """Nothing changes."""

    def after_epoch(self, mean_kl: float) -> None:
        """Nothing changes."""

    def state_dict(self) -> dict[str, float]:
        """There is no progress."""
        return {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """There is no progress."""


@dataclass(frozen=True)
class KlBounds:
    """When a KL-adaptive schedule acts, and how far it may go."""

    threshold: float = 0.008
    min_lr: float = 1e-6
    max_lr: float = 1e-2


class KlAdaptiveLr(LrSchedule):
    """Divides the rate by 1.5 when the policy moves too far, multiplies it by 1.5 when it hardly moves.

    The adaptive rule of Schulman et al. 2017, "Proximal policy optimization algorithms", section 4, applied
    to the learning rate: too far is above twice the threshold, hardly is below half of it.

    Args:
        learning_rate: to start from.
        bounds: threshold and limits.
        per_epoch: acts after each epoch instead of each minibatch.
    """

    def __init__(self, learning_rate: float, bounds: KlBounds, *, per_epoch: bool) -> None:
        super().__init__(learning_rate)
        self._bounds = bounds
        self._per_epoch = per_epoch

    def after_minibatch(self, kl: float) -> None:
        """Adapts, unless that happens per epoch."""
        if not self._per_epoch:
            self._adapt(kl)

    def after_epoch(self, mean_kl: float) -> None:
        """Adapts, unless that happens per minibatch."""
        if self._per_epoch:
            self._adapt(mean_kl)

    def state_dict(self) -> dict[str, float]:
        """The rate reached so far."""
        return {"adapted_lr": self._learning_rate}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continues from the rate reached then."""
        self._learning_rate = state.get("adapted_lr", self._learning_rate)

    def _adapt(self, kl: float) -> None:
        if kl > 2.0 * self._bounds.threshold:
            self._learning_rate = max(self._learning_rate / KL_STEP, self._bounds.min_lr)
        elif kl < 0.5 * self._bounds.threshold:
            self._learning_rate = min(self._learning_rate * KL_STEP, self._bounds.max_lr)


class LinearDecayLr(LrSchedule):
    """A straight line from the learning rate to 0 over all SGD steps of the training.

    Args:
        learning_rate: of the first step.
        total_updates: SGD steps until the rate is 0.
    """

    def __init__(self, learning_rate: float, total_updates: int) -> None:
        super().__init__(learning_rate)
        self._total_updates = max(1, total_updates)
        self._updates = 0

    def current_lr(self) -> float:
        """The learning rate of the next SGD step."""
        return self._learning_rate * max(0.0, 1.0 - self._updates / self._total_updates)

    def after_minibatch(self, kl: float) -> None:
        """One step further down the line."""
        self._updates += 1

    def after_epoch(self, mean_kl: float) -> None:
        """Nothing changes."""

    def state_dict(self) -> dict[str, float]:
        """SGD steps so far."""
        return {"updates": self._updates}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continues after the SGD steps taken then."""
        self._updates = int(state.get("updates", self._updates))


def make_lr_schedule(
    name: str, *, learning_rate: float, kl_bounds: KlBounds, total_updates: int
) -> LrSchedule:
    """The schedule that `--lr_schedule` names.

    Args:
        name: "constant", "kl_adaptive_minibatch", "kl_adaptive_epoch" or "linear_decay".
        learning_rate: `--learning_rate`.
        kl_bounds: for the KL-adaptive schedules.
        total_updates: SGD steps of the whole training, for "linear_decay".
    """
    if name == "constant":
        return ConstantLr(learning_rate)
    if name in ("kl_adaptive_minibatch", "kl_adaptive_epoch"):
        return KlAdaptiveLr(learning_rate, kl_bounds, per_epoch=name == "kl_adaptive_epoch")
    if name == "linear_decay":
        return LinearDecayLr(learning_rate, total_updates)
    raise ValueError(
        f"--lr_schedule={name} is not known: "
        "use constant, kl_adaptive_minibatch, kl_adaptive_epoch or linear_decay."
    )
