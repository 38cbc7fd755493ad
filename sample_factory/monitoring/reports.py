"""What components tell the session about their work; nothing here acts on it.

Rollout workers send `EpisodeReport` and `MatchReport`, learners `TrainReport`, the evaluator
`EvaluationReport`, every component now and then `ComponentReport`.

Invariant: reports hold plain numbers and strings only, so that they cross process borders cheaply and
the session needs no torch to read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """One finished episode of one agent.

    Attributes:
        length: frames, so that it compares across frameskips.
        extra: `episode_extra_stats` as the environment gave them; may be nested.
    """

    policy_id: int
    reward: float
    true_reward: float
    length: int
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MatchReport:
    """A finished match between agents of one environment.

    Attributes:
        players: for each agent the policy that played it; negative: a member of the league.
        scores: what each agent got; the higher one has won.
    """

    players: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a learner measured in its latest training iteration.

    Attributes:
        env_steps: frames this policy has learned from, earlier sessions included.
        scalars: names without the `train/` prefix.
        lag_histogram: entry i counts the steps whose policy lag was i; the last entry also those beyond it.
    """

    policy_id: int
    policy_version: int
    env_steps: int
    scalars: Mapping[str, float]
    lag_histogram: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """How well one version of a policy did in an evaluation beside training.

    Attributes:
        env_steps: frames that this version had learned from.
        scalars: names without the `eval/` prefix.
    """

    policy_id: int
    policy_version: int
    env_steps: int
    scalars: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ComponentReport:
    """How a component spends its time.

    Attributes:
        name: such as `rollout_worker_3` or `learner_0`.
        timings: seconds by activity.
    """

    name: str
    timings: Mapping[str, float]
    memory_mb: float
