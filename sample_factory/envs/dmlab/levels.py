"""The DMLab-30 levels with their reference scores, and the names people type after `--env=`.

Read by the environment (which level, which task), by the score and by the script that fills the level cache.
The reference scores are those of the DMLab-30 publication; random scores and lengths are of a random policy.

Invariant: the position of a level in `DMLAB30` is its task id, in summaries and in the score.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sample_factory.envs.contract import EnvConfig

PREFIX = "dmlab_"
DMLAB30_FOLDER = "contributed/dmlab30/"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Level:
    """One DMLab-30 level.

    Args:
        name: without its folder; the variant that agents train on.
        human_score: return of a human, which counts as 100 %.
        random_score: return of a random policy, which counts as 0 %.
        random_len_frames: length of a random policy's episode.
        episodes_per_billion: about how many of its layouts training on all 30 levels needs per 1e9 frames;
            0 for levels that are compiled once and for all.
        needs_dataset: shows images of `--dmlab30_dataset`.
    """

    name: str
    human_score: float
    random_score: float
    random_len_frames: int
    episodes_per_billion: int = 0
    needs_dataset: bool = False

    @property
    def path(self) -> str:
        """The level as the simulator knows it."""
        return DMLAB30_FOLDER + self.name


DMLAB30: tuple[Level, ...] = (
    Level("rooms_collect_good_objects_train", 10, 0.073, 3600),
    Level("rooms_exploit_deferred_effects_train", 85.65, 8.501, 3600),
    Level("rooms_select_nonmatching_object", 65.9, 0.312, 720),
    Level("rooms_watermaze", 54, 4.065, 7200),
    Level("rooms_keys_doors_puzzle", 53.8, 4.135, 3468, 11200),
    Level("language_select_described_object", 389.5, -0.07, 3600),
    Level("language_select_located_object", 280.7, 1.929, 7200),
    Level("language_execute_random_task", 254.05, -5.913, 7200),
    Level("language_answer_quantitative_question", 184.5, -0.33, 3600),
    Level("lasertag_one_opponent_small", 12.65, -0.224, 14400, 2400),
    Level("lasertag_three_opponents_small", 18.55, -0.214, 14400, 2400),
    Level("lasertag_one_opponent_large", 18.6, -0.083, 14400, 2400),
    Level("lasertag_three_opponents_large", 31.5, -0.102, 14400, 2400),
    Level("natlab_fixed_large_map", 36.9, 2.173, 7200),
    Level("natlab_varying_map_regrowth", 24.45, 2.989, 7200),
    Level("natlab_varying_map_randomized", 42.35, 7.346, 7200),
    Level("skymaze_irreversible_path_hard", 100, 0.1, 3600, 11200),
    Level("skymaze_irreversible_path_varied", 100, 14.4, 3372, 13500),
    Level("psychlab_arbitrary_visuomotor_mapping", 58.75, 0.163, 18000, needs_dataset=True),
    Level("psychlab_continuous_recognition", 58.3, 0.224, 18000, needs_dataset=True),
    Level("psychlab_sequential_comparison", 39.5, 0.129, 18000, needs_dataset=True),
    Level("psychlab_visual_search", 78.5, 0.085, 9000, needs_dataset=True),
    Level("explore_object_locations_small", 74.45, 3.575, 5400, 6200),
    Level("explore_object_locations_large", 65.65, 4.673, 7200, 4700),
    Level("explore_obstructed_goals_small", 206, 6.76, 5400, 6200),
    Level("explore_obstructed_goals_large", 119.5, 2.61, 7200, 4700),
    Level("explore_goal_locations_small", 267.5, 7.66, 5400, 6200),
    Level("explore_goal_locations_large", 194.5, 3.14, 7200, 4700),
    Level("explore_object_rewards_few", 77.7, 2.073, 5400, 6200),
    Level("explore_object_rewards_many", 106.7, 2.438, 7200, 4700),
)

CACHED_LEVELS: tuple[Level, ...] = tuple(level for level in DMLAB30 if level.episodes_per_billion)

_BY_PATH = MappingProxyType({level.path: level for level in DMLAB30})


@dataclass(frozen=True)
class EnvSpec:
    """What a name after `--env=` stands for: levels as the simulator knows them, and extra options for it."""

    name: str
    levels: tuple[str, ...]
    lab_options: Mapping[str, str] = field(default_factory=dict)


def _one(name: str, level_name: str, lab_options: Mapping[str, str] | None = None) -> EnvSpec:
    return EnvSpec(PREFIX + name, (DMLAB30_FOLDER + level_name,), lab_options or {})


_NAMED = (
    EnvSpec(PREFIX + "30", tuple(level.path for level in DMLAB30)),
    EnvSpec(PREFIX + "level_cache", tuple(level.path for level in CACHED_LEVELS)),
    _one("benchmark", "rooms_collect_good_objects_train"),
    _one("collect_good_objects", "rooms_collect_good_objects_train"),
    _one("benchmark_slow_reset", "rooms_keys_doors_puzzle"),
    _one("sparse", "explore_goal_locations_large"),
    _one("very_sparse", "explore_goal_locations_large", {"minGoalDistance": "10"}),
    _one("sparse_doors", "explore_obstructed_goals_large"),
    _one("nonmatch", "rooms_select_nonmatching_object"),
    _one("watermaze", "rooms_watermaze"),
)
NAMED_ENVS: Mapping[str, EnvSpec] = MappingProxyType({spec.name: spec for spec in _NAMED})


def env_spec(env_name: str) -> EnvSpec:
    """The levels a name stands for; an unknown name after `dmlab_` is taken for the path of a level."""
    spec = NAMED_ENVS.get(env_name)
    if spec is not None:
        return spec
    level_path = env_name.removeprefix(PREFIX)
    if level_path not in _BY_PATH:
        _log.warning(
            "--env=%s is none of %s; taking %r for the path of a level.",
            env_name,
            ", ".join(NAMED_ENVS),
            level_path,
        )
    return EnvSpec(env_name, (level_path,))


def task_id_for(spec: EnvSpec, env_config: EnvConfig | None, one_task_per_worker: bool) -> int:
    """Which of the levels one environment plays: by worker, or by the number of the environment."""
    if env_config is None:
        return 0
    position = env_config.worker_index if one_task_per_worker else env_config.env_id
    return position % len(spec.levels)


def known_level(level_path: str) -> Level | None:
    """The DMLab-30 level at this path, or None for levels outside the benchmark."""
    return _BY_PATH.get(level_path)


def raw_score_key(task_id: int, level_path: str) -> str:
    """The episode statistic that carries the return before rewards are reshaped."""
    return f"z_{task_id:02d}_{_flat_name(level_path)}_dmlab_raw_score"


def len_key(task_id: int, level_path: str) -> str:
    """The episode statistic that carries the length in frames."""
    return f"z_{task_id:02d}_{_flat_name(level_path)}_len"


def _flat_name(level_path: str) -> str:
    # A statistic with a slash in its name would open a TensorBoard section of its own.
    return level_path.removeprefix(DMLAB30_FOLDER).replace("/", "_")
