"""The losses of PPO and their gradients by hand, in numpy.

A minibatch of a small network is a few thousand numbers: taking some forty torch operations and their
backward passes over it costs more than the network. One categorical action or one vector of real numbers is
what most environments have, and its derivatives fit on a page. Used by the learner on a CPU; everything else
goes through `losses` and torch's own differentiation.

Invariant: the same numbers as `losses` and `distributions`, up to rounding. Arrays here are `[B]` or, for
parameters, `[K, B]`: reductions over a handful of choices then run over long rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from gymnasium import spaces

from sample_factory.rl.action_spaces import action_heads
from sample_factory.rl.losses import MAX_RATIO, MAX_SYMMETRIC_KL, MIN_RATIO

MIN_LOG_STDDEV, MAX_LOG_STDDEV = math.log(1e-4), math.log(1e4)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class HandDerived(Protocol):
    """A distribution over actions; each gradient is that of the weighted sum, with respect to parameters."""

    def log_prob(self) -> np.ndarray:
        """Of the actions taken."""

    def log_prob_gradient(self, weights: np.ndarray) -> np.ndarray:
        """`[K, B]`."""

    def exploration(self, kind: str) -> np.ndarray:
        """What `--exploration_loss` names; a loss to be minimised."""

    def exploration_gradient(self, kind: str, weights: np.ndarray) -> np.ndarray:
        """`[K, B]`."""


class Choice:
    """One choice out of K."""

    def __init__(self, logits: np.ndarray, actions: np.ndarray):
        """`logits [B, K]`, `actions [B, 1]`."""
        z = np.array(logits.T, order="C")
        z -= np.maximum.reduce(z, axis=0)
        self._log_probs = z - np.log(np.add.reduce(np.exp(z), axis=0))
        self._probs = np.exp(self._log_probs)
        self._chosen = actions[:, 0].astype(np.intp), np.arange(len(actions))

    def log_prob(self) -> np.ndarray:
        """See `HandDerived`."""
        log_probs: np.ndarray = self._log_probs[self._chosen]
        return log_probs

    def log_prob_gradient(self, weights: np.ndarray) -> np.ndarray:
        """See `HandDerived`: (1 if chosen else 0) - p."""
        gradient = self._probs * -weights
        gradient[self._chosen] += weights
        return gradient

    def _negative_entropy(self) -> np.ndarray:
        total: np.ndarray = np.add.reduce(self._probs * self._log_probs, axis=0)
        return total

    def exploration(self, kind: str) -> np.ndarray:
        """See `HandDerived`."""
        if kind == "entropy":
            return self._negative_entropy()
        mean_log_prob = np.add.reduce(self._log_probs, axis=0) / len(self._log_probs)
        divergence: np.ndarray = 0.5 * (self._negative_entropy() - mean_log_prob)
        return divergence

    def exploration_gradient(self, kind: str, weights: np.ndarray) -> np.ndarray:
        """See `HandDerived`."""
        gradient = self._log_probs - self._negative_entropy()
        gradient *= self._probs
        if kind == "symmetric_kl":
            gradient += self._probs
            gradient -= 1.0 / len(self._probs)
            gradient *= 0.5
        gradient *= weights
        return gradient


class Numbers:
    """Independent normal distributions: K / 2 means, then as many logarithms of standard deviations."""

    def __init__(self, params: np.ndarray, actions: np.ndarray):
        """`params [B, K]`, `actions [B, K / 2]`."""
        means, log_stddevs = np.split(np.ascontiguousarray(params.T), 2)
        self._log_stddevs = np.clip(log_stddevs, MIN_LOG_STDDEV, MAX_LOG_STDDEV)
        self._is_free = self._log_stddevs == log_stddevs
        self._stddevs = np.exp(self._log_stddevs)
        self._distances = (actions.T - means) / self._stddevs

    def log_prob(self) -> np.ndarray:
        """See `HandDerived`."""
        terms = 0.5 * np.square(self._distances) + self._log_stddevs + np.float32(_HALF_LOG_2PI)
        total: np.ndarray = -np.add.reduce(terms, axis=0)
        return total

    def log_prob_gradient(self, weights: np.ndarray) -> np.ndarray:
        """See `HandDerived`."""
        of_means = self._distances / self._stddevs
        of_log_stddevs = (np.square(self._distances) - 1.0) * self._is_free
        gradient = np.concatenate((of_means, of_log_stddevs))
        gradient *= weights
        return gradient

    def exploration(self, kind: str) -> np.ndarray:
        """See `HandDerived`: the negative differential entropy, whatever `kind`."""
        total: np.ndarray = -np.add.reduce(self._log_stddevs + np.float32(0.5 + _HALF_LOG_2PI), axis=0)
        return total

    def exploration_gradient(self, kind: str, weights: np.ndarray) -> np.ndarray:
        """See `HandDerived`."""
        return np.concatenate((np.zeros_like(self._distances), -weights * self._is_free))


def can_derive(action_space: spaces.Space, exploration_loss: str) -> bool:
    """Whether the distribution over this space's actions is one of the two above."""
    kinds = [head.kind for head in action_heads(action_space)]
    return kinds == ["categorical"] or (kinds == ["gaussian"] and exploration_loss == "entropy")


def hand_derived(action_space: spaces.Space, params: np.ndarray, actions: np.ndarray) -> HandDerived:
    """The distribution with parameters `[B, K]`, and the actions `[B, A]` that were taken."""
    kind = Choice if action_heads(action_space)[0].kind == "categorical" else Numbers
    return kind(params, actions)


@dataclass(frozen=True)
class PpoSettings:
    """The settings the losses depend on."""

    clip_ratio: float
    clip_value: float
    value_loss_coeff: float
    exploration_loss: str
    exploration_loss_coeff: float


@dataclass(frozen=True)
class PpoSteps:
    """What is known of B steps, `[B]` each."""

    advantages: np.ndarray  # normalised
    old_values: np.ndarray
    targets: np.ndarray
    weights: np.ndarray  # of each step in the means: they add up to 1, invalid steps have 0


@dataclass(frozen=True)
class PpoLosses:
    """Losses, and the gradient of their sum."""

    policy_loss: np.float32
    value_loss: np.float32
    exploration_loss: np.float32
    of_params: np.ndarray  # [B, K]
    of_values: np.ndarray  # [B]


class ImportanceRatios(NamedTuple):
    """Ratios `[B]`, and their slopes with respect to the log-probability."""

    values: np.ndarray
    slopes: np.ndarray


def importance_ratios(log_probs: np.ndarray, behaviour_log_probs: np.ndarray) -> ImportanceRatios:
    """`losses.importance_ratio` with its slope."""
    difference = log_probs - behaviour_log_probs
    clipped = np.minimum(np.maximum(difference, math.log(MIN_RATIO)), math.log(MAX_RATIO))
    ratios = np.exp(clipped)
    return ImportanceRatios(ratios, ratios * (clipped == difference))


def ppo_losses(
    distribution: HandDerived,
    ratios: ImportanceRatios,
    values: np.ndarray,
    steps: PpoSteps,
    settings: PpoSettings,
) -> PpoLosses:
    """The sum of the policy, value and exploration losses of `losses`, and its gradient."""
    policy_loss, gradient = _policy_part(distribution, ratios, steps, settings.clip_ratio)
    value_loss, of_values = _value_part(values, steps, settings)
    exploration_loss = np.float32(0.0)
    if settings.exploration_loss_coeff != 0.0:
        kind, coeff = settings.exploration_loss, np.float32(settings.exploration_loss_coeff)
        mean = np.dot(distribution.exploration(kind), steps.weights)
        if kind == "entropy" or mean < MAX_SYMMETRIC_KL:
            exploration_loss = coeff * mean
            gradient += distribution.exploration_gradient(kind, coeff * steps.weights)
        elif np.isfinite(mean):
            exploration_loss = coeff * np.float32(MAX_SYMMETRIC_KL)
    return PpoLosses(policy_loss, value_loss, exploration_loss, gradient.T, of_values)


def _policy_part(
    distribution: HandDerived, importance: ImportanceRatios, steps: PpoSteps, clip_ratio: float
) -> tuple[np.float32, np.ndarray]:
    ratios, slopes = importance
    clipped = np.minimum(np.maximum(ratios, 1.0 / (1.0 + clip_ratio)), 1.0 + clip_ratio)
    free, bounded = ratios * steps.advantages, clipped * steps.advantages
    loss = -np.dot(np.minimum(free, bounded), steps.weights)
    counts = (clipped == ratios) | (free < bounded)  # elsewhere the clipped, constant term is the smaller one
    return loss, distribution.log_prob_gradient(-steps.weights * steps.advantages * counts * slopes)


def _value_part(values: np.ndarray, steps: PpoSteps, settings: PpoSettings) -> tuple[np.float32, np.ndarray]:
    limit = settings.clip_value
    moves = values - steps.old_values
    clipped_moves = np.minimum(np.maximum(moves, -limit), limit)
    errors = values - steps.targets
    clipped_errors = steps.old_values + clipped_moves - steps.targets
    squares, clipped_squares = np.square(errors), np.square(clipped_errors)
    loss = np.dot(np.maximum(squares, clipped_squares), steps.weights)
    slopes = np.where(squares >= clipped_squares, errors, clipped_errors * (moves == clipped_moves))
    coeff = np.float32(settings.value_loss_coeff)
    return coeff * loss, (2.0 * coeff) * slopes * steps.weights
