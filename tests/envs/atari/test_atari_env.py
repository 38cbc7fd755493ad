"""Preprocessing of Atari games, checked against a second emulator that is played by hand."""

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

import cv2
from ale_py import ALEInterface, roms

from sample_factory.envs.atari.env import AtariEnv, AtariOptions
from tests.envs.contract_check import check_env

NOOP, FIRE, RIGHT, LEFT = range(4)  # Breakout's actions
BUTTONS = (0, 1, 3, 4)  # and the buttons of the console they stand for


def play_until_game_over(env, seed):
    """Plays at random; the episodes of one game as lists of (reward, terminated, truncated, info)."""
    rng = np.random.default_rng(seed or 0)
    env.reset(seed=seed)
    episodes = [[]]
    for _ in range(3000):
        _, reward, terminated, truncated, info = env.step(rng.integers(env.action_space.n))
        episodes[-1].append((reward, terminated, truncated, info))
        if terminated or truncated:
            if "episode_extra_stats" in info:
                return episodes
            env.reset()
            episodes.append([])
    raise AssertionError("the game did not end")


def wait_for_end(env):
    """Does nothing until the episode ends; the info of its last step."""
    for _ in range(200):
        _, _, terminated, truncated, info = env.step(NOOP)
        if terminated or truncated:
            return info
    raise AssertionError("the episode did not end")


class Reference:
    """Breakout by hand: the picture after holding a button for four frames."""

    def __init__(self):
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", 0)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path("breakout"))
        self.ale.reset_game()

    def hold(self, button):
        frames = []
        for _ in range(4):
            self.ale.act(button)
            frames.append(self.ale.getScreenGrayscale())
        brightest = np.where(frames[2] > frames[3], frames[2], frames[3])
        self.flickered = not np.array_equal(frames[2], frames[3])
        return cv2.resize(brightest, (84, 84), interpolation=cv2.INTER_AREA)


def test_planes_are_the_last_four_pictures_oldest_first():
    env, reference = AtariEnv(AtariOptions("breakout", max_noops=0)), Reference()
    obs, _ = env.reset(seed=0)
    pictures = [reference.hold(BUTTONS[FIRE])] * 4
    np.testing.assert_array_equal(obs, np.stack(pictures))
    flickered = False
    for action in (RIGHT, NOOP, LEFT, RIGHT, RIGHT, NOOP):
        obs = env.step(action)[0]
        pictures = [*pictures[1:], reference.hold(BUTTONS[action])]
        flickered |= reference.flickered
        np.testing.assert_array_equal(obs, np.stack(pictures))
    assert flickered, "the maximum over two frames was never needed"


def test_an_observation_is_not_changed_by_later_steps():
    env = AtariEnv(AtariOptions("breakout"))
    first, _ = env.reset(seed=0)
    kept = first.copy()
    second = env.step(RIGHT)[0]
    env.step(LEFT)
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(second[:-1], first[1:])


def test_channels_last_is_the_same_picture_turned():
    chw = AtariEnv(AtariOptions("breakout")).reset(seed=3)[0]
    hwc = AtariEnv(AtariOptions("breakout", channels_last=True)).reset(seed=3)[0]
    np.testing.assert_array_equal(hwc.transpose(2, 0, 1), chw)


def test_breakout_has_five_episodes_a_game_and_reports_the_score_of_all_lives():
    episodes = play_until_game_over(AtariEnv(AtariOptions("breakout")), seed=2)
    assert len(episodes) == 5
    score = sum(reward for episode in episodes for reward, *_ in episode)
    assert score > 0
    last_info = episodes[-1][-1][3]
    assert last_info["true_reward"] == score
    assert last_info["episode_extra_stats"]["game_score"] == score


def test_the_end_of_a_life_repeats_the_score_of_the_last_finished_game():
    env = AtariEnv(AtariOptions("breakout"))
    score = play_until_game_over(env, seed=2)[-1][-1][3]["true_reward"]
    env.reset()
    info = wait_for_end(env)
    assert info["true_reward"] == score
    assert "episode_extra_stats" not in info


def test_a_whole_game_is_one_episode_without_episodic_life():
    episodes = play_until_game_over(AtariEnv(AtariOptions("breakout", episodic_life=False)), seed=2)
    assert len(episodes) == 1


def test_rewards_are_raw_points():
    env = AtariEnv(AtariOptions("qbert"))
    rewards = {reward for episode in play_until_game_over(env, seed=0) for reward, *_ in episode}
    assert 25.0 in rewards


@pytest.mark.parametrize("seed", range(3))
def test_frames_are_counted_as_played(seed):
    env = AtariEnv(AtariOptions("breakout", max_noops=0, episodic_life=False))
    (episode,) = play_until_game_over(env, seed)
    frames = [info["num_frames"] for *_, info in episode]
    assert set(frames[:-1]) == {4}
    fire_frames = 4
    assert episode[-1][3]["episode_extra_stats"]["game_frames"] == fire_frames + sum(frames)


def test_a_game_over_within_a_skip_ends_it_early():
    env = AtariEnv(AtariOptions("breakout", episodic_life=False))
    last_frames = [play_until_game_over(env, seed)[-1][-1][3]["num_frames"] for seed in range(3)]
    assert min(last_frames) < 4


def test_time_runs_out_after_the_limit_of_frames_and_a_new_game_begins():
    env = AtariEnv(AtariOptions("pong", limit_frames=100, max_noops=0))
    env.reset(seed=0)
    for frames in range(8, 101, 4):  # the FIRE of the reset took the first four
        _, _, terminated, truncated, info = env.step(NOOP)
        assert not terminated
        assert truncated == (frames == 100)
    assert info["episode_extra_stats"]["game_frames"] == 100
    env.reset()
    assert env.step(NOOP)[3] is False


def test_fire_is_pressed_after_a_reset_so_the_ball_falls_without_the_policy():
    env = AtariEnv(AtariOptions("breakout"))
    for _ in range(2):  # also for the second life
        env.reset()
        wait_for_end(env)


def test_resetting_in_the_middle_of_a_life_starts_a_new_game():
    env = AtariEnv(AtariOptions("breakout"))
    env.reset(seed=0)
    wait_for_end(env)
    env.reset()
    env.step(NOOP)
    assert len(play_until_game_over(env, seed=None)) == 5


def test_the_same_seed_gives_the_same_game():
    check_env("atari_seaquest", steps=60, reproducible=True)


def test_seeds_change_how_long_a_game_waits_before_it_starts():
    env = AtariEnv(AtariOptions("space_invaders"))
    starts = {env.reset(seed=seed)[0].tobytes() for seed in range(6)}
    assert len(starts) > 1


def test_sticky_actions_make_the_same_buttons_end_differently():
    env = AtariEnv(AtariOptions("breakout", sticky_actions=0.5, max_noops=0))
    ends = set()
    for seed in range(3):
        env.reset(seed=seed)
        for step in range(20):
            obs = env.step(RIGHT if step % 2 else LEFT)[0]
        ends.add(obs.tobytes())
    assert len(ends) > 1


def test_rendering_gives_the_colour_screen():
    env = AtariEnv(AtariOptions("pong"), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (210, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 2
