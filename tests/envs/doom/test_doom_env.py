"""One game on the real engine: rewards, time, frames, seeds, pictures, demos."""

import numpy as np
import pytest

from sample_factory.envs.contract import NUM_FRAMES
from sample_factory.envs.doom import doom_play_demo
from sample_factory.envs.doom.env import DoomOptions, frame_scaler
from sample_factory.envs.wrappers import TERMINATED_BY_TIMER

NOTHING, ATTACK = 0, 3  # of doom_basic


def play(env, choose, seed=None):
    """One episode: rewards, frames of each step, and how it ended."""
    env.reset(seed=seed)
    rewards, frames, ended = [], [], False
    while not ended:
        _, reward, terminated, truncated, info = env.step(choose(len(rewards)))
        rewards.append(reward)
        frames.append(info[NUM_FRAMES])
        ended = terminated or truncated
    return rewards, frames, terminated


def scripted(seed, length=400):
    """A fixed list of random actions of doom_basic."""
    return np.random.default_rng(seed).integers(1, 4, size=length)


def test_doing_nothing_in_doom_basic_costs_three_points_and_times_out_after_300_frames(make_doom):
    rewards, frames, terminated = play(make_doom("doom_basic"), lambda step: NOTHING)
    assert sum(rewards) == pytest.approx(-3.0)
    assert sum(frames) == 300
    assert not terminated


def test_the_last_step_before_a_time_out_takes_only_the_frames_that_are_left(make_doom):
    _, frames, _ = play(make_doom("doom_basic", env_frameskip=7), lambda step: NOTHING)
    assert frames == [7] * 42 + [6]


def test_a_time_out_shows_the_true_final_frame(make_doom):
    env = make_doom("doom_basic")
    env.reset(seed=0)
    for _ in range(75):
        obs, _, terminated, truncated, info = env.step(NOTHING)
    assert (terminated, truncated, info[TERMINATED_BY_TIMER]) == (False, True, True)
    assert obs.any()


def test_shooting_the_monster_ends_doom_basic_with_about_one_point(make_doom):
    env = make_doom("doom_basic")
    won = []
    for seed in range(6):
        moves = scripted(seed)
        rewards, _, terminated = play(env, lambda step, moves=moves: int(moves[step]), seed)
        if terminated:
            won.append(rewards[-1])
    assert won
    assert all(0.9 < reward < 1.02 for reward in won)


def test_the_frames_of_a_won_episode_are_those_of_playing_it_frame_by_frame(make_doom):
    """The last action of a won episode is cut short in the middle of its skip."""
    skipping, slow = make_doom("doom_basic"), make_doom("doom_basic", env_frameskip=1)
    for seed in range(4):
        moves = scripted(seed)
        _, frames, _ = play(skipping, lambda step, moves=moves: int(moves[step]), seed)
        _, slow_frames, _ = play(slow, lambda step, moves=moves: int(moves[step // 4]), seed)
        assert sum(frames) == len(slow_frames)


def test_the_reward_of_a_skip_is_the_sum_over_its_frames(make_doom):
    skipping, slow = make_doom("doom_basic"), make_doom("doom_basic", env_frameskip=1)
    moves = scripted(3)
    rewards, _, _ = play(skipping, lambda step: int(moves[step]), 3)
    slow_rewards, _, _ = play(slow, lambda step: int(moves[step // 4]), 3)
    assert sum(rewards) == pytest.approx(sum(slow_rewards))


def test_the_penalty_for_dying_ends_an_episode_as_terminated(make_doom):
    rewards, _, terminated = play(make_doom("doom_defend_the_center"), lambda step: (0, 0))
    assert terminated
    assert rewards[-1] == -1.0


def test_a_seed_gives_the_same_episode_whether_the_game_is_new_or_not(make_doom):
    env, other = make_doom("doom_my_way_home"), make_doom("doom_my_way_home")
    first, _ = env.reset(seed=3)
    env.reset()
    np.testing.assert_array_equal(first, env.reset(seed=3)[0])
    np.testing.assert_array_equal(first, other.reset(seed=3)[0])


def test_episodes_without_a_seed_differ(make_doom):
    env = make_doom("doom_my_way_home")
    first, _ = env.reset(seed=3)
    assert any(not np.array_equal(first, env.reset()[0]) for _ in range(5))


def test_info_holds_the_variables_of_the_scenario(make_doom):
    env = make_doom("doom_basic")
    _, info = env.reset()
    assert info["AMMO2"] == 50.0
    assert set(info["pos"]) == {"agent_x", "agent_y", "agent_a"}


def test_the_observation_is_made_of_the_nearest_pixels():
    frame = np.random.default_rng(0).integers(0, 256, (3, 120, 160), dtype=np.uint8)
    expected = np.empty((3, 72, 128), np.uint8)
    for y in range(72):
        for x in range(128):
            expected[:, y, x] = frame[:, int(y * 120 / 72), int(x * 160 / 128)]
    scaled = frame_scaler((160, 120), DoomOptions())(frame)
    np.testing.assert_array_equal(scaled, expected)
    assert scaled.flags.c_contiguous  # copied ten times as fast


def test_a_picture_of_the_drawn_size_is_not_touched():
    frame = np.zeros((3, 144, 256), np.uint8)
    assert frame_scaler((256, 144), DoomOptions(width=256, height=144))(frame) is frame


def test_channels_last_is_the_same_picture(make_doom):
    first, _ = make_doom("doom_my_way_home").reset(seed=1)
    last, _ = make_doom("doom_my_way_home", pixel_format="HWC").reset(seed=1)
    np.testing.assert_array_equal(first, last.transpose(2, 0, 1))


def test_the_size_of_the_observation_follows_the_flags(make_doom):
    env = make_doom("doom_my_way_home", res_w=84, res_h=60, wide_aspect_ratio=True)
    assert env.reset()[0].shape == env.observation_space.shape == (3, 60, 84)


def test_rendering_shows_the_frame_as_the_engine_drew_it(make_doom):
    env = make_doom("doom_my_way_home", render_mode="rgb_array", res_w=160, res_h=120)
    obs, _ = env.reset()
    np.testing.assert_array_equal(env.render(), obs.transpose(1, 2, 0))


def record_two_episodes(make_doom):
    env = make_doom("doom_basic", record_to="recordings")
    for _ in range(2):
        env.reset()
        for _ in range(3):
            env.step(NOTHING)
    env.close()


def test_recording_writes_a_demo_and_the_frames_of_every_episode(make_doom, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_two_episodes(make_doom)
    assert sorted(path.name for path in (tmp_path / "recordings").iterdir()) == [
        "e000.lmp",
        "e001.lmp",
        "ep_000_p0_r-12.00",
        "ep_001_p0_r-12.00",
    ]


def test_only_the_first_environment_records(make_doom, tmp_path):
    make_doom("doom_basic", vector_index=1, record_to=str(tmp_path)).reset()
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_demo_can_be_replayed_to_pictures(make_doom, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_two_episodes(make_doom)
    assert doom_play_demo.main(["--env=doom_basic", "--demo_path=recordings/e000.lmp"]) == 0
    pictures = sorted((tmp_path / "recordings" / "e000_frames").iterdir())
    assert pictures[0].name == "00000.png"
    assert len(pictures) >= 12


def test_a_variable_the_engine_counts_for_ever_starts_each_episode_at_zero(make_doom, scenarios):
    env = make_doom("doom_duel_bots", timelimit=0.05)
    game = env.unwrapped
    env.reset()
    game.game.send_game_command("kill")  # the player, so that a death is counted
    for _ in range(5):
        *_, info = env.step(env.action_space.sample())
    assert info["DEATHCOUNT"] == 1.0
    _, info = env.reset()
    assert info["DEATHCOUNT"] == 0.0
