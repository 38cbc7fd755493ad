"""What limits the speed of a session, from how its components spend their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sample_factory.algorithms.appo.board import Activity

BUSY = 0.85  # a component that waits less than 15 % of its time has no time to spare


@dataclass(frozen=True)
class Verdict:
    """Shares of time in per cent, and one sentence about them."""

    environment: float
    inference: float
    learning: float
    waiting: float
    sentence: str


def judge(names: Sequence[str], seconds: np.ndarray) -> Verdict:
    """Reads the board's `seconds [components, activities]` of an interval.

    Args:
        names: of the components, in the order of the rows.
        seconds: spent on each activity in the interval that is judged.
    """
    samplers = [i for i, name in enumerate(names) if not name.startswith("learner")]
    learners = [i for i, name in enumerate(names) if name.startswith("learner")]
    total = max(float(seconds[samplers].sum()), 1e-9)
    environment = float(seconds[samplers, Activity.ENVIRONMENT].sum()) / total
    inference = float(seconds[samplers, Activity.INFERENCE].sum()) / total
    waiting = float(seconds[samplers, Activity.WAITING].sum()) / total
    work = seconds[learners, Activity.TRAINING] + seconds[learners, Activity.BATCHING]
    learning = float((work / np.maximum(seconds[learners].sum(axis=1), 1e-9)).max())
    return Verdict(
        environment=100 * environment,
        inference=100 * inference,
        learning=100 * learning,
        waiting=100 * waiting,
        sentence=_sentence(environment, inference, learning, waiting),
    )


def _sentence(environment: float, inference: float, learning: float, waiting: float) -> str:
    if learning >= BUSY and waiting > 1 - BUSY:
        return f"the learner ({learning:.0%} busy): fewer --ppo_epochs or more --learner_threads"
    if environment >= inference:
        return f"the environment ({environment:.0%} of sampling): more --num_workers if cores are free"
    return f"inference ({inference:.0%} of sampling): more --num_envs_per_worker, or a smaller network"
