"""Sessions of all sizes, and a loop over many schedules."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sample_factory.algorithms.appo.trajectories import slots_needed


@dataclass(frozen=True)
class Shape:
    """How many of everything; `spare_slots` is counted from the smallest store that can't deadlock."""

    workers: int = 2
    splits: int = 1
    envs_per_split: int = 2
    agents_per_env: int = 1
    policies: int = 1
    policy_workers: int = 1  # per policy; 0: the rollout workers run the networks
    rollout: int = 3
    slots_per_batch: int = 2
    spare_slots: int = 0
    trajectories_per_iteration: int = 0

    @property
    def agents_per_split(self) -> int:
        return self.envs_per_split * self.agents_per_env

    @property
    def num_slots(self) -> int:
        smallest = slots_needed(self.policies, self.slots_per_batch, self.agents_per_split)
        return smallest + self.spare_slots


def try_schedules(seeds: Iterable[int], schedule: Callable[[int], None]) -> None:
    """Runs a schedule for each seed; a failure tells the seed."""
    for seed in seeds:
        try:
            schedule(seed)
        except BaseException as error:
            error.add_note(f"in the schedule with seed {seed}")
            raise


def random_shape(rng: random.Random, **fixed: Any) -> Shape:
    """Any small session."""
    drawn: dict[str, Any] = {
        "workers": rng.randint(1, 3),
        "splits": rng.randint(1, 2),
        "envs_per_split": rng.randint(1, 2),
        "agents_per_env": rng.choice((1, 1, 2)),
        "policies": rng.randint(1, 2),
        "policy_workers": rng.randint(0, 2),
        "rollout": rng.randint(1, 4),
        "slots_per_batch": rng.randint(1, 4),
        "spare_slots": rng.choice((0, 0, 1, 5)),
    }
    return Shape(**drawn | fixed)
