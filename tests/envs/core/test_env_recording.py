"""Episodes on disk."""

import json

import numpy as np
import pytest

from sample_factory.envs.recording import Recording, png
from tests.envs.core.scripted import ScriptedEnv, counted_vectors


def picture(value):
    return np.full((6, 5, 3), value, dtype=np.uint8)


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def test_each_episode_gets_a_directory_that_is_named_by_its_reward_at_the_next_reset(tmp_path):
    env = Recording(ScriptedEnv([picture(i) for i in range(4)]), tmp_path, player=1)
    env.reset()
    env.step(2)
    env.step(np.int64(3))
    assert names(tmp_path) == ["ep_000_p1"]
    env.reset()
    assert names(tmp_path) == ["ep_000_p1_r3.00", "ep_001_p1"]


def test_a_recording_holds_frames_and_actions(tmp_path):
    env = Recording(ScriptedEnv([picture(i) for i in range(4)]), tmp_path)
    env.reset()
    env.step(np.int64(3))
    env.step((1, np.array([0.5, 1.0])))
    env.close()
    (episode,) = tmp_path.iterdir()
    assert names(episode) == ["00000.png", "00001.png", "actions.json"]
    assert json.loads((episode / "actions.json").read_text()) == [3, [1, [0.5, 1.0]]]


def test_closing_finishes_the_last_episode(tmp_path):
    env = Recording(ScriptedEnv([picture(0)]), tmp_path)
    env.reset()
    env.close()
    assert names(tmp_path) == ["ep_000_p0_r0.00"]


@pytest.mark.parametrize("shape", [(4, 7), (4, 7, 3), (4, 7, 4)])
def test_a_png_reads_back_as_it_was_written(shape):
    imageio = pytest.importorskip("imageio.v3")
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(imageio.imread(png(pixels), extension=".png"), pixels)


def test_frames_in_chw_order_are_turned_around(tmp_path):
    imageio = pytest.importorskip("imageio.v3")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 6, 5), dtype=np.uint8)
    env = Recording(ScriptedEnv([pixels], key="obs"), tmp_path)
    env.reset()
    env.step(0)
    written = imageio.imread(tmp_path / "ep_000_p0" / "00000.png")
    np.testing.assert_array_equal(written, pixels.transpose(1, 2, 0))


def test_without_a_picture_in_the_observation_the_rendered_frame_is_written(tmp_path):
    inner = ScriptedEnv(counted_vectors(3))
    inner.render = lambda: picture(9)
    env = Recording(inner, tmp_path)
    env.reset()
    env.step(0)
    assert names(tmp_path / "ep_000_p0") == ["00000.png"]


def test_the_raw_environment_is_told_where_to_record(tmp_path):
    inner = ScriptedEnv([picture(0)])
    inner.record_to = None
    Recording(inner, tmp_path)
    assert inner.record_to == str(tmp_path)
