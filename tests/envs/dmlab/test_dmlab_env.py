"""A level as an environment, against the stand-in."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.dmlab.env import DmlabEnv, DmlabOptions, reshape_reward
from sample_factory.envs.dmlab.instructions import word_bucket
from sample_factory.envs.dmlab.levels import DMLAB30
from sample_factory.envs.dmlab.simulator import LabOptions
from sample_factory.envs.make import make_env
from sample_factory.envs.registry import MissingPackageError
from tests.envs.contract_check import check_env

WATERMAZE = "contributed/dmlab30/rooms_watermaze"
LANGUAGE = "contributed/dmlab30/language_select_described_object"
GENERATED = "contributed/dmlab30/rooms_keys_doors_puzzle"
FIRST = EnvConfig(worker_index=0, vector_index=0, env_id=0)
FORWARD, BACKWARD = 0, 1

pytestmark = pytest.mark.usefixtures("deepmind_lab")


def place(worker_index: int) -> EnvConfig:
    return EnvConfig(worker_index, vector_index=0, env_id=worker_index)


def level_env(level_path: str = WATERMAZE, **options: Any) -> DmlabEnv:
    return DmlabEnv(DmlabOptions(LabOptions(level_path, width=32, height=24), **options))


@pytest.fixture
def lab_calls(deepmind_lab, monkeypatch) -> list[dict[str, Any]]:
    """What instances were started with, and which seeds they were reset with."""
    calls: list[dict[str, Any]] = []

    class Spy(deepmind_lab.Lab):
        def __init__(self, level: str, observations: list[str], **arguments: Any) -> None:
            self.record: dict[str, Any] = {
                "level": level,
                "observations": observations,
                "seeds": [],
                "steps": [],
                **arguments,
            }
            calls.append(self.record)
            super().__init__(level, observations, **arguments)

        def reset(self, episode: int = -1, seed: int | None = None) -> bool:
            self.record["seeds"].append(seed)
            return super().reset(episode, seed)

        def step(self, action: np.ndarray, num_steps: int = 1) -> float:
            self.record["steps"].append((action.tolist(), num_steps))
            return super().step(action, num_steps)

    monkeypatch.setattr(deepmind_lab, "Lab", Spy)
    return calls


# --- the contract


@pytest.mark.parametrize("name", ["dmlab_benchmark", "dmlab_30", "dmlab_very_sparse", "dmlab_level_cache"])
def test_environments_keep_the_contract(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "90")
    overrides = {"train_dir": str(tmp_path), "dmlab_level_cache_path": str(tmp_path / "cache")}
    report = check_env(name, overrides, steps=60)
    assert report.episodes == 2
    assert report.observations[0]["obs"].shape == (3, 72, 96)
    assert report.observations[0]["INSTR"].shape == (16,)


def test_the_same_seed_gives_the_same_episode(tmp_path: Path):
    check_env("dmlab_watermaze", {"train_dir": str(tmp_path)}, steps=30, reproducible=True)


def test_spaces_are_known_without_starting_the_simulator(make_cfg, lab_calls):
    env = make_env("dmlab_30", make_cfg("dmlab_30", dmlab_extended_action_set=True), None)
    assert env.observation_space["obs"].shape == (3, 72, 96)
    assert env.observation_space["INSTR"].dtype == np.int32
    assert env.observation_space["INSTR"].high.max() == 1000
    assert env.action_space.n == 15
    assert lab_calls == []


def test_stepping_before_a_reset_says_so():
    with pytest.raises(RuntimeError, match="must be reset"):
        level_env().step(FORWARD)


def test_a_closed_environment_can_be_reset_again():
    env = level_env()
    env.reset(seed=1)
    env.close()
    env.reset(seed=1)
    env.close()


# --- what the simulator is asked for


def test_the_simulator_gets_its_options_as_text(make_cfg, lab_calls, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    cfg = make_cfg("dmlab_very_sparse", dmlab_renderer="hardware", dmlab_gpus=[3])
    make_env("dmlab_very_sparse", cfg, FIRST).reset()
    assert lab_calls[0]["level"] == "contributed/dmlab30/explore_goal_locations_large"
    assert lab_calls[0]["observations"] == ["RGB_INTERLEAVED", "INSTR"]
    assert lab_calls[0]["renderer"] == "hardware"
    assert lab_calls[0]["config"] == {
        "width": "96",
        "height": "72",
        "gpuDeviceIndex": "3",
        "datasetPath": "/home/someone/datasets/brady_konkle_oliva2008",
        "minGoalDistance": "10",
    }


def test_gpus_are_given_to_workers_in_turn(make_cfg, lab_calls):
    cfg = make_cfg("dmlab_benchmark", dmlab_gpus=[0, 2, 5])
    for worker in range(5):
        make_env("dmlab_benchmark", cfg, place(worker)).reset()
    assert [call["config"]["gpuDeviceIndex"] for call in lab_calls] == ["0", "2", "5", "0", "2"]


def test_workers_play_the_levels_of_their_tasks(make_cfg, lab_calls):
    cfg = make_cfg("dmlab_30", dmlab_one_task_per_worker=True)
    for worker in (0, 1, 31):
        make_env("dmlab_30", cfg, EnvConfig(worker, vector_index=5, env_id=worker * 12 + 5)).reset()
    names = [DMLAB30[task].path for task in (0, 1, 1)]
    assert [call["level"] for call in lab_calls] == names


def test_an_action_is_held_for_the_frameskip(lab_calls):
    env = level_env(frameskip=8)
    env.reset(seed=1)
    env.step(BACKWARD)
    assert lab_calls[0]["steps"] == [([0, 0, 0, -1, 0, 0, 0], 8)]


# --- observations


def test_the_image_is_the_simulators_picture_with_channels_first(deepmind_lab):
    env = level_env()
    obs, _ = env.reset(options={"lab_seed": 77})
    lab = deepmind_lab.Lab(WATERMAZE, ["RGB"], config={"width": "32", "height": "24"})
    lab.reset(seed=77)
    np.testing.assert_array_equal(obs["obs"], lab.observations()["RGB"])


def test_channels_may_come_last(make_cfg):
    env = make_env("dmlab_benchmark", make_cfg("dmlab_benchmark", pixel_format="HWC"), FIRST)
    obs, _ = env.reset()
    assert obs["obs"].shape == env.observation_space["obs"].shape == (72, 96, 3)


def test_the_instruction_is_observed_as_hashed_words():
    env = level_env(LANGUAGE)
    obs, _ = env.reset(options={"lab_seed": 0})
    words = [word_bucket(word) for word in ("pick", "up", "the", "red", "ball")]
    assert obs["INSTR"].tolist() == words + [0] * 11


def test_an_instruction_of_nineteen_words_is_cut_to_sixteen():
    obs, _ = level_env(LANGUAGE).reset(options={"lab_seed": 2})
    assert np.count_nonzero(obs["INSTR"]) == 16


def test_levels_without_words_show_zeros():
    obs, _ = level_env().reset(seed=1)
    assert obs["INSTR"].tolist() == [0] * 16


@pytest.mark.parametrize("text", [b"go left", np.array(b"go left"), np.array("go left")])
def test_instructions_may_come_in_other_kinds_of_text(deepmind_lab, monkeypatch, text):
    plain = deepmind_lab.Lab.observations
    monkeypatch.setattr(deepmind_lab.Lab, "observations", lambda lab: plain(lab) | {"INSTR": text})
    obs, _ = level_env().reset(seed=1)
    assert obs["INSTR"].tolist()[:3] == [word_bucket("go"), word_bucket("left"), 0]


def test_without_instructions_only_the_image_is_observed(make_cfg, lab_calls):
    env = make_env("dmlab_benchmark", make_cfg("dmlab_benchmark", dmlab_with_instructions=False), FIRST)
    obs, _ = env.reset()
    assert list(obs) == ["obs"]
    assert lab_calls[0]["observations"] == ["RGB_INTERLEAVED"]


def test_observations_handed_out_do_not_change_later():
    env = level_env()
    obs, _ = env.reset(seed=1)
    before = obs["obs"].copy()
    for _ in range(5):
        env.step(FORWARD)
    np.testing.assert_array_equal(obs["obs"], before)


def test_an_episode_ends_with_the_last_picture(monkeypatch):
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "8")
    env = level_env()
    env.reset(seed=1)
    before, *_ = env.step(FORWARD)
    last, _, terminated, truncated, _ = env.step(FORWARD)
    assert (terminated, truncated) == (True, False)
    np.testing.assert_array_equal(last["obs"], before["obs"])


def test_recording_writes_the_frames_of_every_episode_of_the_first_environment(make_cfg, tmp_path):
    cfg = make_cfg("dmlab_watermaze", record_to=str(tmp_path / "recordings"))
    env = make_env("dmlab_watermaze", cfg, FIRST)
    env.reset(seed=1)
    for _ in range(3):
        env.step(FORWARD)
    env.close()
    (episode,) = (tmp_path / "recordings").iterdir()
    files = sorted(path.name for path in episode.iterdir())
    assert files == ["00000.png", "00001.png", "00002.png", "actions.json"]
    second = EnvConfig(worker_index=0, vector_index=1, env_id=1)
    make_env("dmlab_watermaze", cfg, second).reset(seed=1)
    assert len(list((tmp_path / "recordings").iterdir())) == 1


def test_what_is_rendered_is_what_the_agent_saw(make_cfg):
    env = make_env("dmlab_benchmark", make_cfg("dmlab_benchmark"), FIRST, render_mode="rgb_array")
    obs, _ = env.reset()
    np.testing.assert_array_equal(env.render(), obs["obs"].transpose(1, 2, 0))


def test_people_see_an_enlarged_window(make_cfg, monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = make_env("dmlab_benchmark", make_cfg("dmlab_benchmark"), FIRST, render_mode="human")
    env.reset()
    env.step(FORWARD)
    assert env.screen_size == (576, 432)
    env.close()


# --- frames, rewards, statistics


def test_the_last_step_counts_only_the_frames_it_played(monkeypatch):
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "10")
    env = level_env()
    env.reset(seed=1)
    assert [env.step(FORWARD)[4]["num_frames"] for _ in range(3)] == [4, 4, 2]


def test_a_simulator_that_counts_whole_steps_gives_whole_steps(deepmind_lab, monkeypatch):
    monkeypatch.setattr(deepmind_lab.Lab, "num_steps", lambda lab: 4 * math.ceil(lab._num_steps / 4))
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "10")
    env = level_env()
    env.reset(seed=1)
    assert [env.step(FORWARD)[4]["num_frames"] for _ in range(3)] == [4, 4, 4]


@pytest.mark.parametrize(
    ("raw", "reshaped"),
    [
        (0.0, 0.0),
        (1.0, 0.98687660),
        (10.0, 4.82013790),
        (1000.0, 5.0),
        (-1.0, -0.29606298),
        (-10.0, -1.44604137),
    ],
)
def test_rewards_are_squashed_and_losses_weigh_less(raw: float, reshaped: float):
    assert reshape_reward(raw) == pytest.approx(reshaped, abs=1e-7)


def play_episode(env: Any, action: int) -> tuple[list[float], dict[str, Any]]:
    rewards = []
    while True:
        _, reward, terminated, _, info = env.step(action)
        rewards.append(reward)
        if terminated:
            return rewards, info


def test_the_end_of_an_episode_reports_raw_return_and_length(deepmind_lab, monkeypatch):
    monkeypatch.setattr(deepmind_lab.Lab, "step", with_reward(deepmind_lab.Lab.step, 10.0))
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "10")
    env = level_env(task_id=3)
    for _ in range(2):  # the second episode starts from nothing
        env.reset()
        rewards, info = play_episode(env, FORWARD)
        assert rewards == pytest.approx([4.82013790] * 3)
        assert info["true_reward"] == 30.0
        assert info["episode_extra_stats"] == {
            "z_03_rooms_watermaze_dmlab_raw_score": 30.0,
            "z_03_rooms_watermaze_len": 10,
        }


def with_reward(step: Any, reward: float) -> Any:
    def stepped(lab: Any, action: np.ndarray, num_steps: int = 1) -> float:
        step(lab, action, num_steps)
        return reward

    return stepped


def test_statistics_come_only_at_the_end_of_an_episode():
    env = level_env()
    env.reset(seed=1)
    assert env.step(FORWARD)[4] == {"num_frames": 4}


# --- seeds


def seeds_of(make_cfg, lab_calls, env_id: int, **overrides: Any) -> list[int]:
    env = make_env("dmlab_benchmark", make_cfg("dmlab_benchmark", **overrides), place(env_id))
    for _ in range(3):
        env.reset()
    return lab_calls[-1]["seeds"]


def test_environments_play_different_layouts(make_cfg, lab_calls):
    first = seeds_of(make_cfg, lab_calls, env_id=0, seed=1)
    second = seeds_of(make_cfg, lab_calls, env_id=1, seed=1)
    assert len({*first, *second}) == 6


def test_the_seed_of_the_experiment_decides_the_layouts(make_cfg, lab_calls):
    first = seeds_of(make_cfg, lab_calls, env_id=0, seed=1)
    assert first == seeds_of(make_cfg, lab_calls, env_id=0, seed=1)
    assert first != seeds_of(make_cfg, lab_calls, env_id=0, seed=2)


def test_the_throughput_benchmark_plays_one_layout_with_random_actions(make_cfg, lab_calls):
    env = make_env("dmlab_benchmark", make_cfg("dmlab_benchmark", dmlab_throughput_benchmark=True), FIRST)
    for _ in range(2):
        obs, _ = env.reset()
    for _ in range(30):
        env.step(FORWARD)
    assert lab_calls[0]["seeds"] == [42, 42]
    assert len({tuple(action) for action, _ in lab_calls[0]["steps"]}) > 3
    assert list(obs) == ["obs"]


def test_levels_that_are_not_generated_leave_no_trace_on_disk(make_cfg, tmp_path):
    make_env("dmlab_benchmark", make_cfg("dmlab_benchmark"), FIRST).reset()
    assert list(tmp_path.iterdir()) == []


# --- the level cache


def test_a_generated_level_is_compiled_once_and_then_comes_from_the_cache(make_cfg, tmp_path, deepmind_lab):
    compiled = count_compilations(deepmind_lab)
    first = make_env("dmlab_benchmark_slow_reset", make_cfg("dmlab_benchmark_slow_reset"), FIRST)
    for _ in range(3):
        first.reset()
    assert len(compiled) == 3

    other = make_cfg("dmlab_benchmark_slow_reset", experiment="another", seed=5)
    second = make_env("dmlab_benchmark_slow_reset", other, FIRST)
    for _ in range(3):
        second.reset()
    assert len(compiled) == 3


def count_compilations(deepmind_lab: Any) -> list[str]:
    compiled: list[str] = []
    compile_level = deepmind_lab._compile

    def counted(layout: str, pk3_path: str) -> None:
        compiled.append(layout)
        compile_level(layout, pk3_path)

    deepmind_lab._compile = counted
    return compiled


def test_cached_levels_are_listed_with_the_seeds_that_were_played(make_cfg, tmp_path, lab_calls):
    env = make_env("dmlab_benchmark_slow_reset", make_cfg("dmlab_benchmark_slow_reset"), FIRST)
    env.reset()
    env.reset()
    list_name = "_contributed/dmlab30/rooms_keys_doors_puzzle.dm_lvl_seeds"
    seeds, keys = zip(
        *(line.split() for line in (tmp_path / "cache" / list_name).read_text().splitlines()), strict=True
    )
    assert [int(seed) for seed in seeds] == lab_calls[0]["seeds"]
    assert all((tmp_path / "cache" / key).is_file() for key in keys)
    used = tmp_path / "train/exp/dmlab_used_lvl_seeds_p00" / list_name
    assert used.read_text().split() == list(seeds)


def test_each_policy_keeps_its_own_used_seeds(make_cfg, tmp_path, lab_calls):
    env = make_env("dmlab_benchmark_slow_reset", make_cfg("dmlab_benchmark_slow_reset"), FIRST)
    env.reset()
    env.unwrapped.curr_policy_idx = 2
    env.reset()
    assert lab_calls[0]["seeds"][0] == lab_calls[0]["seeds"][1], (
        "policy 2 plays the level compiled for policy 0"
    )
    assert {path.name for path in (tmp_path / "train/exp").iterdir()} == {
        "dmlab_used_lvl_seeds_p00",
        "dmlab_used_lvl_seeds_p02",
    }


def test_a_level_outside_the_benchmark_uses_the_cache_once_it_has_asked_for_it(make_cfg, tmp_path, lab_calls):
    env = make_env("dmlab_tests/generated_maze", make_cfg("dmlab_tests/generated_maze"), FIRST)
    env.reset()
    assert not (tmp_path / "train").exists()
    env.reset()
    used = tmp_path / "train/exp/dmlab_used_lvl_seeds_p00/_tests/generated_maze.dm_lvl_seeds"
    assert used.read_text() == f"{lab_calls[0]['seeds'][1]}\n"


def test_without_the_cache_nothing_is_kept(make_cfg, tmp_path, lab_calls):
    cfg = make_cfg("dmlab_benchmark_slow_reset", dmlab_use_level_cache=False)
    make_env("dmlab_benchmark_slow_reset", cfg, FIRST).reset()
    assert "level_cache" not in lab_calls[0]
    assert list(tmp_path.iterdir()) == []


# --- errors


def test_without_the_module_the_error_says_how_to_build_it(make_cfg, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)
    with pytest.raises(MissingPackageError, match="not on PyPI: build it with Bazel"):
        make_env("dmlab_30", make_cfg("dmlab_30"), None)


def test_an_unknown_level_is_explained(make_cfg):
    env = make_env("dmlab_no_such_level", make_cfg("dmlab_no_such_level"), FIRST)
    with pytest.raises(RuntimeError, match=r"no_such_level.*--env"):
        env.reset()


def test_a_level_without_instructions_is_explained(make_cfg):
    env = make_env("dmlab_seekavoid_arena_01", make_cfg("dmlab_seekavoid_arena_01"), FIRST)
    with pytest.raises(ValueError, match="--dmlab_with_instructions=False"):
        env.reset()


def test_a_second_hardware_renderer_in_a_process_is_explained(make_cfg):
    cfg = make_cfg("dmlab_benchmark", dmlab_renderer="hardware")
    make_env("dmlab_benchmark", cfg, FIRST).reset()
    with pytest.raises(RuntimeError, match="--num_envs_per_worker=1"):
        make_env("dmlab_benchmark", cfg, place(1)).reset()


def test_a_missing_data_set_is_explained(make_cfg, tmp_path):
    cfg = make_cfg("dmlab_30", dmlab30_dataset=str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match=r"--dmlab30_dataset=.*nowhere"):
        make_env("dmlab_30", cfg, place(18)).reset()


def test_levels_with_images_play_when_the_data_set_is_there(make_cfg, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "datasets/brady_konkle_oliva2008").mkdir(parents=True)
    make_env("dmlab_30", make_cfg("dmlab_30"), place(18)).reset()
