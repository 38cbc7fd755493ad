import importlib.util

import numpy as np
import pytest

from sample_factory.evaluation.video import (
    VideoError,
    VideoWriter,
    capture,
    frames_per_second,
    picture_in,
    video_path,
)
from tests.evaluation.paying import PayingEnv

imageio = pytest.importorskip("imageio.v2")


def write(path, pictures, fps=10.0):
    with VideoWriter(path, fps) as writer:
        for picture in pictures:
            writer.add(picture)
    return path


def test_an_mp4_holds_every_frame_at_the_right_speed(tmp_path):
    pictures = [np.full((240, 320, 3), 10 * i, np.uint8) for i in range(12)]
    path = write(tmp_path / "a.mp4", pictures, fps=8.0)
    frames = imageio.mimread(path)
    assert len(frames) == 12
    assert frames[0].shape == (240, 320, 3)
    assert imageio.get_reader(path).get_meta_data()["fps"] == 8.0
    assert [round(float(frame.mean()), -1) for frame in frames[::4]] == [0, 40, 80]


def test_a_gif_holds_every_frame(tmp_path):
    pictures = [np.full((240, 240, 3), 20 * i, np.uint8) for i in range(5)]
    assert len(imageio.mimread(write(tmp_path / "a.gif", pictures))) == 5


def test_small_gray_pictures_are_enlarged_without_blur(tmp_path):
    checks = np.indices((9, 15)).sum(axis=0) % 2 * 255
    frame = imageio.mimread(write(tmp_path / "a.mp4", [checks.astype(np.uint8)] * 3))[0]
    assert frame.shape == (
        9 * 27 + 1,
        15 * 27 + 1,
        3,
    )  # 27 is the factor that reaches 240; sizes are made even
    assert frame[13, 13].max() < 40
    assert frame[13, 13 + 27].min() > 215


def test_nothing_remains_of_a_video_without_frames(tmp_path):
    write(tmp_path / "a.mp4", [])
    assert list(tmp_path.iterdir()) == []


def test_only_a_finished_video_has_its_name(tmp_path):
    writer = VideoWriter(tmp_path / "a.mp4", fps=10.0)
    writer.add(np.zeros((240, 240, 3), np.uint8))
    assert not (tmp_path / "a.mp4").exists()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_videos_are_called_replay_unless_named(tmp_path):
    assert video_path(tmp_path, None) == tmp_path / "replay.mp4"
    assert video_path(tmp_path, "show") == tmp_path / "show.mp4"
    assert video_path(tmp_path, "show.gif") == tmp_path / "show.gif"


def test_an_unknown_format_is_one_sentence(tmp_path):
    with pytest.raises(VideoError, match=r"^--video_name=show.avi must end in .mp4 or .gif or .npz, for"):
        video_path(tmp_path, "show.avi")


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VideoError, match=r"sample-factory-rebuilt\[video\]"):
        video_path(tmp_path, None)


def test_what_the_environment_renders_is_preferred():
    env = PayingEnv(render_mode="rgb_array")
    env.reset()
    assert capture(env, {"obs": np.zeros((3, 8, 8), np.uint8)}).shape == (60, 80, 3)


def test_without_rendering_the_observed_picture_is_taken():
    assert capture(PayingEnv(), {"obs": np.zeros((3, 8, 9), np.uint8)}).shape == (8, 9, 3)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 72, 128), (72, 128, 3)), ((72, 128, 3), (72, 128, 3)), ((20, 30), (20, 30, 1))],
)
def test_pictures_are_found_in_any_order_of_axes(shape, expected):
    assert picture_in({"obs": np.zeros(shape, np.uint8)}).shape == expected


def test_of_stacked_frames_the_newest_is_shown():
    stack = np.stack([np.full((84, 84), i, np.uint8) for i in range(4)])
    picture = picture_in({"obs": stack})
    assert picture.shape == (84, 84, 1)
    assert picture.max() == picture.min() == 3


def test_vectors_are_no_pictures():
    assert picture_in({"obs": np.zeros(5, np.float32), "more": np.zeros((3, 8, 8), np.float32)}) is None


def test_a_video_runs_at_the_speed_of_the_simulation():
    assert frames_per_second(PayingEnv(), wanted_fps=0, env_frameskip=1) == 20.0
    assert frames_per_second(PayingEnv(), wanted_fps=0, env_frameskip=4) == 5.0
    assert frames_per_second(PayingEnv(), wanted_fps=35, env_frameskip=1) == 35.0
