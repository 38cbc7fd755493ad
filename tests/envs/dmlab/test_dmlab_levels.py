"""Which level an environment plays, and what its statistics are called."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.dmlab.levels import (
    CACHED_LEVELS,
    DMLAB30,
    NAMED_ENVS,
    env_spec,
    len_key,
    raw_score_key,
    task_id_for,
)


def place(worker_index: int, vector_index: int, envs_per_worker: int) -> EnvConfig:
    return EnvConfig(worker_index, vector_index, worker_index * envs_per_worker + vector_index)


def test_the_benchmark_has_30_different_levels_of_which_15_are_generated():
    assert len({level.name for level in DMLAB30}) == 30
    assert [DMLAB30.index(level) for level in CACHED_LEVELS] == [4, 9, 10, 11, 12, 16, 17, *range(22, 30)]


def test_generated_levels_need_89100_layouts_per_billion_frames():
    assert sum(level.episodes_per_billion for level in DMLAB30) == 89_100


def test_the_image_data_set_is_needed_by_the_four_psychlab_levels():
    assert [index for index, level in enumerate(DMLAB30) if level.needs_dataset] == [18, 19, 20, 21]


def test_humans_beat_random_policies_on_every_level():
    assert all(level.human_score > level.random_score for level in DMLAB30)


def test_every_named_environment_stands_for_benchmark_levels():
    names = {
        "dmlab_30": 30,
        "dmlab_level_cache": 15,
        "dmlab_benchmark": 1,
        "dmlab_collect_good_objects": 1,
        "dmlab_benchmark_slow_reset": 1,
        "dmlab_sparse": 1,
        "dmlab_very_sparse": 1,
        "dmlab_sparse_doors": 1,
        "dmlab_nonmatch": 1,
        "dmlab_watermaze": 1,
    }
    assert {name: len(spec.levels) for name, spec in NAMED_ENVS.items()} == names


def test_only_the_very_sparse_environment_has_an_option_of_its_own():
    assert {name: dict(spec.lab_options) for name, spec in NAMED_ENVS.items() if spec.lab_options} == {
        "dmlab_very_sparse": {"minGoalDistance": "10"}
    }


def test_90_workers_play_each_of_30_levels_on_three_workers_when_tasks_go_by_worker():
    spec = env_spec("dmlab_30")
    tasks = [task_id_for(spec, place(worker, 7, 12), one_task_per_worker=True) for worker in range(90)]
    assert tasks == [worker % 30 for worker in range(90)]


def test_all_environments_of_a_worker_play_one_level_when_tasks_go_by_worker():
    spec = env_spec("dmlab_30")
    assert {task_id_for(spec, place(31, vector, 12), one_task_per_worker=True) for vector in range(12)} == {1}


def test_1080_environments_spread_evenly_over_levels_when_tasks_go_by_environment():
    spec = env_spec("dmlab_30")
    tasks = Counter(
        task_id_for(spec, place(worker, vector, 12), one_task_per_worker=False)
        for worker in range(90)
        for vector in range(12)
    )
    assert tasks == Counter(dict.fromkeys(range(30), 36))


def test_an_environment_asked_only_for_its_spaces_plays_the_first_level():
    assert task_id_for(env_spec("dmlab_30"), None, one_task_per_worker=True) == 0


def test_an_unknown_name_is_taken_for_a_level_with_a_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, logger="sample_factory"):
        spec = env_spec("dmlab_tests/empty_room_test")
    assert spec.levels == ("tests/empty_room_test",)
    assert "dmlab_watermaze" in caplog.text


def test_the_path_of_a_benchmark_level_needs_no_warning(caplog: pytest.LogCaptureFixture):
    spec = env_spec("dmlab_contributed/dmlab30/rooms_watermaze")
    assert spec.levels == ("contributed/dmlab30/rooms_watermaze",)
    assert caplog.text == ""


def test_statistics_carry_task_and_level_and_no_slash():
    assert raw_score_key(3, "contributed/dmlab30/rooms_watermaze") == "z_03_rooms_watermaze_dmlab_raw_score"
    assert len_key(0, "tests/empty_room_test") == "z_00_tests_empty_room_test_len"
