"""How population-based training changes hyper-parameters. Pure functions of values and random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sample_factory.config.config import Config

RESET_PROBABILITY = 0.05  # of going back to the default instead of a further change
DISCOUNT_FACTORS = (1.01, 1.2)  # for gamma and beta1, applied to their distance from 1
CLOSEST_TO_ONE = 1e-8
VTRACE_FACTOR = 1.005
BATCH_FACTOR = 1.2
MAX_BATCH_GROWTH = 1.5

_ALWAYS_TUNED = (
    "learning_rate",
    "exploration_loss_coeff",
    "value_loss_coeff",
    "max_grad_norm",
    "ppo_clip_ratio",
    "ppo_clip_value",
)


@dataclass(frozen=True)
class MutationRules:
    """The settings that mutation reads."""

    rate: float
    perturb_min: float
    perturb_max: float
    rollout: int
    initial_batch_size: int

    @classmethod
    def of(cls, cfg: Config) -> MutationRules:
        """From the settings of a session."""
        return cls(
            cfg.pbt_mutation_rate, cfg.pbt_perturb_min, cfg.pbt_perturb_max, cfg.rollout, cfg.batch_size
        )


def tuned_hyper_parameters(cfg: Config) -> dict[str, Any]:
    """The hyper-parameters that population-based training may change, with their initial values."""
    names = list(_ALWAYS_TUNED)
    if cfg.pbt_optimize_batch_size:
        names.append("batch_size")
    if cfg.pbt_optimize_gamma:
        names.append("gamma")
    return {name: cfg[name] for name in names}


def mutate(
    values: Mapping[str, Any], defaults: Mapping[str, Any], rules: MutationRules, rng: np.random.Generator
) -> dict[str, Any]:
    """Each value is kept, reset to its default, or perturbed; nested dictionaries are mutated alike."""
    mutated: dict[str, Any] = {}
    for name, value in values.items():
        default = defaults.get(name, value)
        if isinstance(value, Mapping):
            mutated[name] = mutate(value, default, rules, rng)
        else:
            mutated[name] = _mutate_one(name, value, default, rules, rng)
    return mutated


def _mutate_one(name: str, value: Any, default: Any, rules: MutationRules, rng: np.random.Generator) -> Any:
    if isinstance(value, list | tuple):
        pairs = zip(value, default, strict=True)
        return [_mutate_one(name, item, initial, rules, rng) for item, initial in pairs]
    if not isinstance(value, bool | int | float) or rng.random() > rules.rate:
        return value
    if value != default and rng.random() < RESET_PROBABILITY:
        return default
    if isinstance(value, bool):
        return not value
    return _perturb(name, value, rules, rng)


def _perturb(name: str, value: float, rules: MutationRules, rng: np.random.Generator) -> float:
    up = rng.random() < 0.5
    if name in ("gamma", "adam_beta1"):
        factor = rng.uniform(*DISCOUNT_FACTORS)
        distance = (1.0 - value) / factor if up else (1.0 - value) * factor
        return float(1.0 - max(distance, CLOSEST_TO_ONE))
    if name in ("vtrace_rho", "vtrace_c"):
        return float(value * VTRACE_FACTOR if up else value / VTRACE_FACTOR)
    if name == "batch_size":
        changed = value * BATCH_FACTOR if up else value / BATCH_FACTOR
        largest = rules.initial_batch_size * MAX_BATCH_GROWTH
        return int(max(min(changed, largest) // rules.rollout, 1)) * rules.rollout
    factor = rng.uniform(rules.perturb_min, rules.perturb_max)
    return float(value * factor if up else value / factor)
