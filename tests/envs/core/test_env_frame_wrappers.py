"""Wrappers for pictures, against literal frames."""

import sys

import numpy as np
import pytest

from sample_factory.envs.frame_wrappers import (
    Normalize,
    PixelFormatChw,
    Resize,
    SkipAndStack,
    StackFrames,
    VerticalCrop,
)
from sample_factory.envs.registry import MissingPackageError
from tests.envs.core.scripted import ScriptedEnv, counted_vectors


def gray(value, height=2, width=2):
    return np.full((height, width), value, dtype=np.uint8)


def first_obs(env):
    obs, _ = env.reset()
    assert env.observation_space.contains(obs)
    return obs


def test_resize_takes_the_nearest_pixel():
    pytest.importorskip("cv2")
    picture = np.array([[10, 20, 30, 40], [50, 60, 70, 80]], dtype=np.uint8)
    assert first_obs(Resize(ScriptedEnv([picture]), width=2, height=1)).tolist() == [[10, 30]]


def test_resize_by_area_averages():
    pytest.importorskip("cv2")
    picture = np.array([[10, 20, 30, 40], [30, 40, 50, 60]], dtype=np.uint8)
    assert first_obs(Resize(ScriptedEnv([picture]), width=2, height=1, area=True)).tolist() == [[25, 45]]


def test_resize_keeps_colour_channels_last():
    pytest.importorskip("cv2")
    picture = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    resized = first_obs(Resize(ScriptedEnv([picture]), width=2, height=2))
    np.testing.assert_array_equal(resized, picture[::2, ::2])


def test_resize_makes_gray_after_scaling():
    pytest.importorskip("cv2")
    red = np.zeros((4, 4, 3), dtype=np.uint8)
    red[..., 0] = 100
    resized = first_obs(Resize(ScriptedEnv([red]), width=2, height=3, grayscale=True))
    assert resized.tolist() == [[30, 30]] * 3  # 0.299 of red


def test_resize_keeps_a_channel_dimension_when_asked():
    pytest.importorskip("cv2")
    env = Resize(
        ScriptedEnv([np.zeros((4, 4, 3), np.uint8)]), width=2, height=3, grayscale=True, add_channel=True
    )
    assert first_obs(env).shape == (3, 2, 1)


def test_resize_keeps_the_single_channel_that_opencv_drops():
    pytest.importorskip("cv2")
    assert first_obs(Resize(ScriptedEnv([np.zeros((4, 4, 1), np.uint8)]), width=2, height=2)).shape == (
        2,
        2,
        1,
    )


def test_resize_changes_only_its_own_key():
    pytest.importorskip("cv2")
    obs = first_obs(Resize(ScriptedEnv([gray(1, 4, 4)], key="obs"), width=2, height=2))
    assert (obs["obs"].shape, obs["other"].shape) == ((2, 2), (4, 4))


def test_resize_refuses_vectors():
    pytest.importorskip("cv2")
    with pytest.raises(ValueError, match="uint8 pictures"):
        Resize(ScriptedEnv(counted_vectors(2)), width=2, height=2)


def test_resize_without_opencv_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingPackageError, match="pip install opencv-python-headless"):
        Resize(ScriptedEnv([gray(0)]), width=1, height=1)


def test_stack_frames_repeats_the_first_frame_and_then_shows_the_oldest_first():
    env = StackFrames(ScriptedEnv([gray(i) for i in range(5)]), 3)
    assert first_obs(env)[:, 0, 0].tolist() == [0, 0, 0]
    stacks = [env.step(0)[0] for _ in range(4)]
    assert [stack[:, 0, 0].tolist() for stack in stacks] == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_stack_frames_forgets_the_last_episode():
    env = StackFrames(ScriptedEnv([gray(7), gray(8)]), 2)
    env.reset()
    env.step(0)
    assert first_obs(env)[:, 0, 0].tolist() == [7, 7]


def test_stack_frames_puts_channels_last_when_asked():
    env = StackFrames(ScriptedEnv([gray(1, 2, 5), gray(2, 2, 5)]), 4, pixel_format="HWC")
    assert first_obs(env).shape == (2, 5, 4)
    assert env.step(0)[0][0, 0].tolist() == [1, 1, 1, 2]


def test_stacked_vectors_become_one_vector():
    env = StackFrames(ScriptedEnv([np.array([1, 2], np.float32), np.array([3, 4], np.float32)]), 2)
    assert first_obs(env).tolist() == [1, 2, 1, 2]
    assert env.step(0)[0].tolist() == [1, 2, 3, 4]


def test_stacks_already_given_out_do_not_change():
    env = StackFrames(ScriptedEnv([gray(i) for i in range(5)]), 2)
    first = first_obs(env)
    env.step(0)
    assert first[:, 0, 0].tolist() == [0, 0]


def test_stacks_are_right_when_the_environment_reuses_its_frame():
    frame = gray(1)
    env = StackFrames(ScriptedEnv([frame]), 2)
    env.reset()
    frame[:] = 2
    assert env.step(0)[0][:, 0, 0].tolist() == [1, 2]


def test_stack_frames_refuses_colour():
    with pytest.raises(ValueError, match="without channels"):
        StackFrames(ScriptedEnv([np.zeros((4, 4, 3), np.uint8)]), 2)


def test_stack_frames_refuses_an_unknown_pixel_format():
    with pytest.raises(ValueError, match="use CHW or HWC"):
        StackFrames(ScriptedEnv([gray(0)]), 2, pixel_format="WHC")


def test_skip_and_stack_shows_the_frames_that_were_skipped():
    env = SkipAndStack(ScriptedEnv([gray(i) for i in range(9)]), skip=3, frames=4)
    env.reset()
    obs, reward, _, _, info = env.step(0)
    assert obs[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert (reward, info["num_frames"]) == (6.0, 3)
    assert env.step(0)[0][:, 0, 0].tolist() == [3, 4, 5, 6]


def test_pixel_format_chw_puts_channels_first():
    picture = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
    obs = first_obs(PixelFormatChw(ScriptedEnv([picture])))
    assert obs.shape == (3, 5, 6)
    assert obs[2, 4, 1] == picture[4, 1, 2]


def test_pixel_format_chw_refuses_what_is_chw_already():
    with pytest.raises(ValueError, match="CHW already"):
        PixelFormatChw(ScriptedEnv([np.zeros((3, 8, 8), np.uint8)]))


def test_normalize_maps_the_bounds_to_minus_one_and_one():
    obs = first_obs(Normalize(ScriptedEnv([np.array([0, 255, 51], dtype=np.uint8)])))
    np.testing.assert_allclose(obs, [-1.0, 1.0, -0.6], atol=1e-6)
    assert obs.dtype == np.float32


def test_normalize_needs_finite_bounds():
    env = ScriptedEnv(counted_vectors(2))
    env.observation_space.high[:] = np.inf
    with pytest.raises(ValueError, match="--normalize_input=True"):
        Normalize(env)


def test_vertical_crop_keeps_the_middle_rows():
    picture = np.arange(6, dtype=np.uint8).reshape(6, 1)
    assert first_obs(VerticalCrop(ScriptedEnv([picture]), 2)).tolist() == [[2], [3]]


def test_vertical_crop_refuses_to_keep_more_rows_than_there_are():
    with pytest.raises(ValueError, match="cannot keep 9 rows"):
        VerticalCrop(ScriptedEnv([gray(0)]), 9)


def test_a_transform_of_a_missing_key_is_refused():
    with pytest.raises(ValueError, match="no array to transform"):
        VerticalCrop(ScriptedEnv([gray(0)], key="obs"), 1, key="depth")
