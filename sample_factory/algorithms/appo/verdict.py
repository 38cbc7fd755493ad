"""What limits the speed of a session, from how its components spend their time.

`progress` asks every few seconds for the display, every minute and at the end for the log. Pure arithmetic on
the board's seconds.
Invariant: the five shares add up to 100 per cent, and every sentence names a flag to turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sample_factory.algorithms.appo.board import Activity

BUSY = 0.85  # a component that waits less than 15 % of its time has no time to spare
MOSTLY = 0.5  # rollout workers that wait more than this are held up by the others

_LINE_START, _LINE_SHARES = "Speed is limited by ", ". Time of all components: "
_LINE = re.compile(f"{re.escape(_LINE_START)}(.+?){re.escape(_LINE_SHARES)}")

_ENVIRONMENT = "more --num_workers if cores are free"
_INFERENCE = "more --num_envs_per_worker, or a smaller network (--hidden_size)"
_LEARNER = "fewer --ppo_epochs, or more --learner_threads if cores are free"
_POLICY_WORKERS = "more --policy_workers_per_policy, or --inference=rollout_workers"
_BOOKKEEPING = "more --num_envs_per_worker"
_WAITING = "more --num_envs_per_worker or --num_workers, so that there is always something to do"
_TAKING_TURNS = (
    "--async_rl=True lets both go on at once, and the rollout workers' cores help with --learner_threads"
)
_SERIAL = "--serial_mode=False lets collecting and learning use all cores"


@dataclass(frozen=True)
class Verdict:
    """Shares of the time of all components in per cent, and one sentence about them."""

    environment: float
    inference: float
    learning: float
    waiting: float
    other: float
    sentence: str

    def line(self) -> str:
        """For the log."""
        return (
            f"{_LINE_START}{self.sentence}{_LINE_SHARES}environment "
            f"{self.environment:.0f} %, inference {self.inference:.0f} %, learner {self.learning:.0f} %, "
            f"waiting {self.waiting:.0f} %, other {self.other:.0f} %."
        )


def last_sentence(log: str) -> str:
    """What the newest verdict in a log says; empty if there is none."""
    found = _LINE.findall(log)
    return str(found[-1]) if found else ""


def judge(
    names: Sequence[str], seconds: np.ndarray, serial: bool = False, taking_turns: bool = False
) -> Verdict:
    """Reads the board's `seconds [components, activities]` of an interval.

    Args:
        names: of the components, in the order of the rows.
        seconds: spent on each activity in the interval that is judged.
        serial: whether one process runs the components in turn; then what a component does not work on is
            the time of the others, and the shares are those of the one process.
        taking_turns: whether rollout workers wait while the learner trains, and the other way round.
    """
    spent = seconds.sum(axis=0)
    environment = float(spent[Activity.ENVIRONMENT])
    inference = float(spent[Activity.INFERENCE])
    learning = float(spent[Activity.TRAINING] + spent[Activity.BATCHING])
    waiting = 0.0 if serial else float(spent[Activity.WAITING])
    total = max(float(seconds.sum(axis=1).max() if serial else seconds.sum()), 1e-9)
    other = max(0.0, total - environment - inference - learning - waiting)
    shares = {"environment": environment, "inference": inference, "learner": learning}
    if serial:
        sentence = _serial_sentence(shares, total)
    elif taking_turns:
        sentence = _turns_sentence(names, seconds)
    else:
        sentence = _sentence(names, seconds, shares, total)
    return Verdict(
        environment=100 * environment / total,
        inference=100 * inference / total,
        learning=100 * learning / total,
        waiting=100 * waiting / total,
        other=100 * other / total,
        sentence=sentence,
    )


def _serial_sentence(shares: dict[str, float], total: float) -> str:
    largest = max(shares, key=lambda name: shares[name])
    return (
        f"one process that does everything, most of it {largest} ({shares[largest] / total:.0%}): {_SERIAL}"
    )


def _turns_sentence(names: Sequence[str], seconds: np.ndarray) -> str:
    collecting = 1 - _share(_rows(names, seconds, "rollout_worker"), Activity.WAITING)
    learning = _busiest(_rows(names, seconds, "learner"))
    shares = f"collecting ({collecting:.0%} of the time) and learning ({learning:.0%})"
    return f"{shares} that take turns: {_TAKING_TURNS}"


def _sentence(names: Sequence[str], seconds: np.ndarray, shares: dict[str, float], total: float) -> str:
    rollout = _rows(names, seconds, "rollout_worker")
    waits = _share(rollout, Activity.WAITING)
    learner = _busiest(_rows(names, seconds, "learner"))
    policy_workers = _busiest(_rows(names, seconds, "policy_worker"))
    if learner >= BUSY and waits > 1 - BUSY:
        return f"the learner ({learner:.0%} busy): {_LEARNER}"
    if policy_workers >= BUSY and waits > 1 - BUSY:
        return f"inference in policy workers ({policy_workers:.0%} busy): {_POLICY_WORKERS}"
    if waits > MOSTLY:
        return f"waiting ({waits:.0%} of the rollout workers' time, and nobody is busy): {_WAITING}"
    if learner >= BUSY:  # everybody is busy: what costs most decides
        return _largest(shares, total)
    return _sampling_sentence(rollout)


def _largest(shares: dict[str, float], total: float) -> str:
    advice = {"environment": _ENVIRONMENT, "inference": _INFERENCE, "learner": _LEARNER}
    largest = max(shares, key=lambda name: shares[name])
    return f"the cores, all busy, most with the {largest} ({shares[largest] / total:.0%}): {advice[largest]}"


def _sampling_sentence(rollout: np.ndarray) -> str:
    """Rollout workers have no time to spare, the others have."""
    environment, inference = _share(rollout, Activity.ENVIRONMENT), _share(rollout, Activity.INFERENCE)
    other = _share(rollout, Activity.OTHER)
    if other > max(environment, inference):
        return f"bookkeeping ({other:.0%} of the rollout workers' time): {_BOOKKEEPING}"
    if environment >= inference:
        return f"the environment ({environment:.0%} of the rollout workers' time): {_ENVIRONMENT}"
    return f"inference ({inference:.0%} of the rollout workers' time): {_INFERENCE}"


def _rows(names: Sequence[str], seconds: np.ndarray, role: str) -> np.ndarray:
    return seconds[[i for i, name in enumerate(names) if name.startswith(role)]]


def _share(rows: np.ndarray, activity: Activity) -> float:
    return float(rows[:, activity].sum()) / max(float(rows.sum()), 1e-9)


def _busiest(rows: np.ndarray) -> float:
    """The share of its time that the busiest of some components does not wait; 0 when there are none."""
    if not len(rows):
        return 0.0
    totals = np.maximum(rows.sum(axis=1), 1e-9)
    return float((1 - rows[:, Activity.WAITING] / totals).max())
