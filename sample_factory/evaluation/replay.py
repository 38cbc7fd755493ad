"""Plays a published policy again, and says whether it is what its result file says it is.

`publish` decides with `replay_episodes` how many episodes that takes, tests call `check_published` for every
directory in `trained_policies/`.

Invariant: a policy passes only if its files belong together, its mean agrees with the recorded one, and it
is much nearer to that than to a random policy.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.run_record import read_json_object
from sample_factory.config.config import Config
from sample_factory.evaluation.command_line import experiment_cfg
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import Programme
from sample_factory.evaluation.published import EPISODES_FILE, RESULT_FILE
from sample_factory.evaluation.source import find_checkpoint
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import Checkpoint, CheckpointStore

STANDARD_ERRORS = 4.0  # by which the mean of a replay may differ from the recorded one
NEVER_VARIES = 0.02  # of the way from a random policy: what a policy without any spread may differ by
FEWEST_EPISODES, ENOUGH_EPISODES, MOST_EPISODES = 4, 10, 30
REPLAY_SECONDS = 8.0  # of one core, which six policies may take each
_ENVS = 4


def replay_episodes(score: float, spread: float, random_score: float, seconds_per_episode: float) -> int:
    """How many episodes tell a policy from one that is half as good, if there is the time for them."""
    gap = abs(score - random_score)
    wanted = math.ceil((2 * STANDARD_ERRORS * spread / gap) ** 2) if gap > 0 else MOST_EPISODES
    affordable = int(REPLAY_SECONDS / max(seconds_per_episode, 1e-6))
    return max(FEWEST_EPISODES, min(max(wanted, ENOUGH_EPISODES), affordable, MOST_EPISODES))


@dataclass(frozen=True)
class Replay:
    """Scores of a policy that was played again, beside what is on record."""

    result: dict[str, Any]
    scores: Sequence[float]

    @property
    def score(self) -> float:
        """The mean."""
        return float(np.mean(self.scores))

    @property
    def tolerance(self) -> float:
        """How far the mean may be from the recorded one."""
        result = self.result
        gap = abs(result["score"] - result["random_score"])
        standard_error = result["score_std"] / math.sqrt(len(self.scores))
        return float(STANDARD_ERRORS * standard_error + NEVER_VARIES * gap)

    def problems(self) -> list[str]:
        """What speaks against this being the policy on record."""
        result, found = self.result, []
        if not abs(self.score - result["score"]) <= self.tolerance:
            found.append(
                f"it scored {self.score:.2f} over {len(self.scores)} episodes, "
                f"not {result['score']:.2f} ± {self.tolerance:.2f}"
            )
        if not self.score > (result["score"] + result["random_score"]) / 2:
            found.append(f"{self.score:.2f} is not far above a random policy's {result['random_score']:.2f}")
        return found


def check_published(directory: Path) -> Replay:
    """Checks the files of a published policy, then plays it.

    Raises:
        EvaluationError: it is not what its result file says.
        CheckpointError: its weights can't be read.
        MissingPackageError: its environment is not installed.
    """
    result = read_json_object(directory / RESULT_FILE)
    if result is None:
        raise EvaluationError(f"{directory} has no {RESULT_FILE}; sf publish writes one.")
    cfg = experiment_cfg(directory, f"--eval_deterministic={result['deterministic']}", "--device=cpu")
    _refuse(directory, _mislabelled(directory, result, cfg, find_checkpoint(cfg)))
    programme = Programme(result["replay_episodes"], _ENVS, result["seed"])
    replay = Replay(result, [episode.true_reward for episode in play(Job(cfg, programme))])
    _refuse(directory, replay.problems())
    return replay


def _refuse(directory: Path, problems: Sequence[str]) -> None:
    if problems:
        raise EvaluationError(
            f"{directory.name} is not the policy that was published: {'; '.join(problems)}."
        )


def _mislabelled(directory: Path, result: dict[str, Any], cfg: Config, checkpoint: Checkpoint) -> list[str]:
    """What the files of a policy say differently."""
    with (directory / EPISODES_FILE).open(encoding="utf-8", newline="") as file:
        scores = [float(row["true_reward"]) for row in csv.DictReader(file)]
    files = CheckpointStore(directory / "checkpoint_p0").checkpoints()
    pairs = {
        "its directory": (directory.name, result["name"]),
        "the environment in its settings": (cfg.env, result["env"]),
        "the policy version of its weights": (checkpoint.policy_version, result["policy_version"]),
        "the number of frames of its weights": (checkpoint.env_steps, result["env_steps"]),
        "the number of checkpoints": (len(files), 1),
        "the number of its episodes": (len(scores), result["episodes"]),
        "the mean of its episodes": (round(float(np.mean(scores)), 4), round(result["score"], 4)),
    }
    return [f"{what} is {found}, not {told}" for what, (found, told) in pairs.items() if found != told]
