"""The stand-in is as strict as the module it stands for."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

LEVEL = "contributed/dmlab30/rooms_watermaze"
GENERATED = "contributed/dmlab30/rooms_keys_doors_puzzle"
RGB = ["RGB_INTERLEAVED"]
FORWARD = np.array([0, 0, 0, 1, 0, 0, 0], np.intc)


@pytest.fixture
def lab(deepmind_lab) -> Any:
    lab = deepmind_lab.Lab(LEVEL, [*RGB, "INSTR"], config={"width": "96", "height": "72"})
    yield lab
    lab.close()


def test_config_values_must_be_text(deepmind_lab):
    with pytest.raises(TypeError, match="width"):
        deepmind_lab.Lab(LEVEL, RGB, config={"width": 96})


def test_observations_must_be_a_list(deepmind_lab):
    with pytest.raises(TypeError, match="observations"):
        deepmind_lab.Lab(LEVEL, tuple(RGB))


def test_an_unknown_observation_is_refused(deepmind_lab):
    with pytest.raises(ValueError, match="Unknown observation 'DEPTH_CHARGE'"):
        deepmind_lab.Lab(LEVEL, ["DEPTH_CHARGE"])


def test_an_unknown_level_is_refused(deepmind_lab):
    with pytest.raises(RuntimeError, match="level not found"):
        deepmind_lab.Lab("no/such_level", RGB)


def test_an_unknown_renderer_is_refused(deepmind_lab):
    with pytest.raises(ValueError, match="renderer"):
        deepmind_lab.Lab(LEVEL, RGB, renderer="crayon")


def test_a_cache_needs_both_of_its_methods(deepmind_lab):
    with pytest.raises(TypeError, match="fetch"):
        deepmind_lab.Lab(LEVEL, RGB, level_cache=object())


def test_stepping_before_a_reset_is_refused(lab):
    with pytest.raises(RuntimeError, match="wrong status"):
        lab.step(FORWARD)


def test_nothing_is_observed_before_a_reset(lab):
    with pytest.raises(RuntimeError, match="wrong status"):
        lab.observations()


def test_stepping_and_looking_after_the_end_are_refused(lab, monkeypatch):
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "3")
    lab.reset(seed=1)
    lab.step(FORWARD, num_steps=4)
    assert not lab.is_running()
    assert lab.num_steps() == 3
    with pytest.raises(RuntimeError, match="wrong status"):
        lab.step(FORWARD)
    with pytest.raises(RuntimeError, match="wrong status"):
        lab.observations()


@pytest.mark.parametrize(
    "action",
    [
        FORWARD.astype(np.int64),
        FORWARD.astype(np.float32),
        FORWARD[:6],
        FORWARD[None],
        FORWARD.tolist(),
        np.array([0, 0, 0, 2, 0, 0, 0], np.intc),
    ],
    ids=["int64", "float32", "six", "two-dimensional", "list", "out of range"],
)
def test_wrong_actions_are_refused(lab, action):
    lab.reset(seed=1)
    with pytest.raises((TypeError, ValueError)):
        lab.step(action)


def test_seeds_are_plain_integers(lab):
    with pytest.raises(TypeError, match="seed"):
        lab.reset(seed=1.0)


def test_an_instance_does_not_survive_into_another_process(lab, monkeypatch):
    lab.reset(seed=1)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(RuntimeError, match="another process"):
        lab.step(FORWARD)
    monkeypatch.undo()


def test_a_process_has_one_hardware_renderer_at_a_time(deepmind_lab):
    first = deepmind_lab.Lab(LEVEL, RGB, renderer="hardware")
    with pytest.raises(RuntimeError, match="OpenGL"):
        deepmind_lab.Lab(LEVEL, RGB, renderer="hardware")
    first.close()
    deepmind_lab.Lab(LEVEL, RGB, renderer="hardware").close()


def test_the_same_seed_and_actions_show_the_same_pictures(deepmind_lab):
    def play() -> bytes:
        lab = deepmind_lab.Lab(LEVEL, RGB, config={"width": "32", "height": "24"})
        lab.reset(seed=9)
        for _ in range(20):
            lab.step(FORWARD)
        return lab.observations()["RGB_INTERLEAVED"].tobytes()

    assert play() == play()


def test_pictures_depend_on_level_seed_position_and_heading(deepmind_lab):
    pictures = set()

    def look(level: str, seed: int, action: np.ndarray | None = None) -> None:
        lab = deepmind_lab.Lab(level, RGB, config={"width": "32", "height": "24"})
        lab.reset(seed=seed)
        if action is not None:
            lab.step(action, num_steps=5)
        pictures.add(lab.observations()["RGB_INTERLEAVED"].tobytes())
        lab.close()

    look(LEVEL, 3)
    look("contributed/dmlab30/natlab_fixed_large_map", 3)
    look(LEVEL, 2)
    look(LEVEL, 3, FORWARD)
    look(LEVEL, 3, np.array([20, 0, 0, 0, 0, 0, 0], np.intc))
    look(LEVEL, 3, np.array([0, 10, 0, 0, 0, 0, 0], np.intc))
    assert len(pictures) == 6


def test_specs_describe_what_is_observed(lab):
    lab.reset(seed=1)
    seen = lab.observations()
    spec = {entry["name"]: entry for entry in lab.observation_spec()}
    assert seen["RGB_INTERLEAVED"].shape == spec["RGB_INTERLEAVED"]["shape"] == (72, 96, 3)
    assert seen["RGB_INTERLEAVED"].dtype == spec["RGB_INTERLEAVED"]["dtype"]
    assert isinstance(seen["INSTR"], str)
    assert [entry["max"] for entry in lab.action_spec()] == [512, 512, 1, 1, 1, 1, 1]


class FakeCache:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls: list[str] = []

    def fetch(self, key: str, pk3_path: str) -> Any:
        self.calls.append("fetch")
        if self.answer is True:
            with open(pk3_path, "wb") as file:
                file.write(b"not an archive")
        return self.answer

    def write(self, key: str, pk3_path: str) -> None:
        self.calls.append("write")
        assert os.path.getsize(pk3_path) > 0


def reset_with(deepmind_lab, level: str, cache: FakeCache) -> None:
    lab = deepmind_lab.Lab(level, RGB, level_cache=cache)
    try:
        lab.reset(seed=5)
    finally:
        lab.close()


def test_a_generated_level_is_offered_to_the_cache_after_a_miss(deepmind_lab):
    cache = FakeCache(answer=False)
    reset_with(deepmind_lab, GENERATED, cache)
    assert cache.calls == ["fetch", "write"]


def test_a_compiled_level_never_asks_the_cache(deepmind_lab):
    cache = FakeCache(answer=False)
    reset_with(deepmind_lab, LEVEL, cache)
    assert cache.calls == []


def test_a_cache_that_gives_a_broken_file_breaks_the_level(deepmind_lab):
    with pytest.raises(RuntimeError, match="pk3"):
        reset_with(deepmind_lab, GENERATED, FakeCache(answer=True))


def test_a_cache_must_answer_yes_or_no(deepmind_lab):
    with pytest.raises(TypeError, match="bool"):
        reset_with(deepmind_lab, GENERATED, FakeCache(answer=None))
