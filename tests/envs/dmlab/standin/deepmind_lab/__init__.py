"""A stand-in for the `deepmind_lab` module: the same interface, and as unforgiving.

The real module is built from source with Bazel, so tests run against this one. It wants the same types,
raises the same kinds of errors in the same situations, compiles generated levels through the same cache
callbacks into a real archive, and shows pictures that depend on level, seed and actions. Shaped by the
environment variables:

    DMLAB_STANDIN_COMPILE_SEC      how long compiling a generated level takes (0)
    DMLAB_STANDIN_EPISODE_FRAMES   length of an episode (3600)
    DMLAB_STANDIN_CRASH_FILE       number of generated levels after which the process dies, once
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .world import World, instruction_for, layout_text

__all__ = ["Lab", "runfiles_path", "set_runfiles_path", "version"]

_FOLDER = "contributed/dmlab30/"
_GENERATED = {
    _FOLDER + name
    for name in (
        "rooms_keys_doors_puzzle",
        "lasertag_one_opponent_small",
        "lasertag_three_opponents_small",
        "lasertag_one_opponent_large",
        "lasertag_three_opponents_large",
        "skymaze_irreversible_path_hard",
        "skymaze_irreversible_path_varied",
        "explore_object_locations_small",
        "explore_object_locations_large",
        "explore_obstructed_goals_small",
        "explore_obstructed_goals_large",
        "explore_goal_locations_small",
        "explore_goal_locations_large",
        "explore_object_rewards_few",
        "explore_object_rewards_many",
    )
}
_SHOWS_IMAGES = {
    _FOLDER + name
    for name in (
        "psychlab_arbitrary_visuomotor_mapping",
        "psychlab_continuous_recognition",
        "psychlab_sequential_comparison",
        "psychlab_visual_search",
    )
}
_COMPILED = {
    _FOLDER + name
    for name in (
        "rooms_collect_good_objects_train",
        "rooms_collect_good_objects_test",
        "rooms_exploit_deferred_effects_train",
        "rooms_exploit_deferred_effects_test",
        "rooms_select_nonmatching_object",
        "rooms_watermaze",
        "language_select_described_object",
        "language_select_located_object",
        "language_execute_random_task",
        "language_answer_quantitative_question",
        "natlab_fixed_large_map",
        "natlab_varying_map_regrowth",
        "natlab_varying_map_randomized",
    )
}
_WITHOUT_INSTRUCTIONS = {"seekavoid_arena_01", "tests/empty_room_test"}
_GENERATED.add("tests/generated_maze")
_LEVELS = _GENERATED | _SHOWS_IMAGES | _COMPILED | _WITHOUT_INSTRUCTIONS

_ACTIONS = (
    ("LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", -512, 512),
    ("LOOK_DOWN_UP_PIXELS_PER_FRAME", -512, 512),
    ("STRAFE_LEFT_RIGHT", -1, 1),
    ("MOVE_BACK_FORWARD", -1, 1),
    ("FIRE", 0, 1),
    ("JUMP", 0, 1),
    ("CROUCH", 0, 1),
)
_FPS = 60

_runfiles_path = "/nowhere/deepmind_lab.runfiles"
_hardware_instances: set[int] = set()


def version() -> str:
    return "stand-in"


def runfiles_path() -> str:
    return _runfiles_path


def set_runfiles_path(path: str) -> None:
    global _runfiles_path
    if not isinstance(path, str):
        raise TypeError("runfiles path must be a string")
    _runfiles_path = path


class Lab:
    """One instance of the simulator."""

    def __init__(
        self,
        level: str,
        observations: list[str],
        config: dict[str, str] | None = None,
        renderer: str = "software",
        level_cache: Any = None,
        temp_folder: str = "",
    ) -> None:
        self._pid = os.getpid()
        self._status = "closed"
        _require(level, str, "level")
        _require(observations, list, "observations")
        _require(temp_folder, str, "temp_folder")
        self._config = _checked_config({} if config is None else config)
        if renderer not in ("software", "hardware"):
            raise ValueError(f"Invalid renderer '{renderer}', must be 'software' or 'hardware'.")
        if level not in _LEVELS:
            raise RuntimeError(f"Failed to initialise: level not found: '{level}'")
        if level_cache is not None:
            for method in ("fetch", "write"):
                if not callable(getattr(level_cache, method, None)):
                    raise TypeError(f"level_cache object has no method '{method}'")
        self._level = level
        self._level_cache = level_cache
        self._size = int(self._config.get("width", "320")), int(self._config.get("height", "240"))
        self._names = _checked_observations(observations, {spec["name"] for spec in self.observation_spec()})
        if renderer == "hardware":
            if os.getpid() in _hardware_instances:
                raise RuntimeError("Failed to create an OpenGL context: one is already current.")
            _hardware_instances.add(os.getpid())
        self._hardware = renderer == "hardware"
        self._temp_folder = temp_folder or None
        self._status = "waiting for reset"
        self._num_steps = 0

    # --- descriptions

    def action_spec(self) -> list[dict[str, Any]]:
        return [{"name": name, "min": low, "max": high} for name, low, high in _ACTIONS]

    def observation_spec(self) -> list[dict[str, Any]]:
        width, height = self._size
        specs = [
            {"name": "RGB_INTERLEAVED", "dtype": np.uint8, "shape": (height, width, 3)},
            {"name": "RGB", "dtype": np.uint8, "shape": (3, height, width)},
        ]
        if self._level not in _WITHOUT_INSTRUCTIONS:
            specs.append({"name": "INSTR", "dtype": str, "shape": ()})
        return specs

    def fps(self) -> int:
        return _FPS

    def num_steps(self) -> int:
        return self._num_steps

    def is_running(self) -> bool:
        self._check_process()
        return self._status == "running"

    def events(self) -> list[tuple[str, list[Any]]]:
        self._check_process()
        return []

    # --- an episode

    def reset(self, episode: int = -1, seed: int | None = None) -> bool:
        self._check_process()
        if self._status == "closed":
            raise RuntimeError("Environment in wrong status for call to reset(): closed")
        _require(episode, int, "episode")
        if seed is None:
            seed = int.from_bytes(os.urandom(3), "little")
        _require(seed, int, "seed")
        if not 0 <= seed < 2**31:
            raise ValueError("seed must be a non-negative 32-bit integer")
        if self._level in _SHOWS_IMAGES and not Path(self._config.get("datasetPath", "")).is_dir():
            raise RuntimeError(
                f"Failed to start level: no data set at '{self._config.get('datasetPath', '')}'"
            )
        if self._level in _GENERATED:
            self._load_generated(seed)
        self._world = World(self._level, seed)
        self._num_steps = 0
        self._episode_frames = _episode_frames(self._config)
        self._status = "running"
        return True

    def step(self, action: np.ndarray, num_steps: int = 1) -> float:
        self._check_running("step")
        _check_action(action)
        _require(num_steps, int, "num_steps")
        if num_steps <= 0:
            raise ValueError("num_steps must be greater than 0")
        reward = 0.0
        for _ in range(num_steps):
            reward += self._world.advance(action)
            self._num_steps += 1
            if self._num_steps >= self._episode_frames:
                self._status = "episode over"
                break
        return reward

    def observations(self) -> dict[str, Any]:
        self._check_running("observations")
        picture = self._world.picture(*self._size)
        seen = {
            "RGB_INTERLEAVED": picture,
            "RGB": np.ascontiguousarray(picture.transpose(2, 0, 1)),
            "INSTR": self._world.instruction,
        }
        return {name: seen[name] for name in self._names}

    def close(self) -> None:
        self._check_process()
        self._status = "closed"
        if self._hardware:
            _hardware_instances.discard(os.getpid())
            self._hardware = False

    # --- the level cache

    def _load_generated(self, seed: int) -> None:
        layout = layout_text(self._level, seed)
        key = hashlib.md5(
            f"{self._level}\n{layout}\n{instruction_for(self._level, seed)}".encode()
        ).hexdigest()
        _crash_if_asked_to()
        # No longer than it is needed: processes that are killed leave no folder behind.
        with tempfile.TemporaryDirectory(prefix="dmlab_standin_", dir=self._temp_folder) as folder:
            pk3_path = os.path.join(folder, "level.pk3")
            if not self._fetch(key, pk3_path):
                _compile(layout, pk3_path)
                if self._level_cache is not None:
                    self._level_cache.write(key, pk3_path)
            with zipfile.ZipFile(pk3_path) as archive:
                if archive.read("maps/level.map").decode() != layout:
                    raise RuntimeError("Failed to load map: not the map that was asked for")

    def _fetch(self, key: str, pk3_path: str) -> bool:
        if self._level_cache is None:
            return False
        hit = self._level_cache.fetch(key, pk3_path)
        if not isinstance(hit, bool):
            raise TypeError("level_cache.fetch must return a bool")
        if hit and not zipfile.is_zipfile(pk3_path):
            raise RuntimeError("Failed to load map: the cache gave no pk3 file")
        return hit

    # --- checks

    def _check_running(self, call: str) -> None:
        self._check_process()
        if self._status != "running":
            raise RuntimeError(f"Environment in wrong status for call to {call}(): {self._status}")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("This instance was created in another process.")


def _crash_if_asked_to() -> None:
    crash_file = Path(os.environ.get("DMLAB_STANDIN_CRASH_FILE", ""))
    if crash_file.is_file():
        levels_left = int(crash_file.read_text())
        if levels_left == 0:
            crash_file.unlink()
            os._exit(139)
        crash_file.write_text(str(levels_left - 1))


def _compile(layout: str, pk3_path: str) -> None:
    time.sleep(float(os.environ.get("DMLAB_STANDIN_COMPILE_SEC", "0")))
    with zipfile.ZipFile(pk3_path, "w") as archive:
        archive.writestr("maps/level.map", layout)


def _episode_frames(config: dict[str, str]) -> int:
    frames = os.environ.get("DMLAB_STANDIN_EPISODE_FRAMES")
    if frames is not None:
        return int(frames)
    return int(float(config.get("episodeLengthSeconds", "60")) * _FPS)


def _require(value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")


def _checked_config(config: dict[str, str]) -> dict[str, str]:
    _require(config, dict, "config")
    for key, value in config.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"config must map strings to strings; {key!r} is {value!r}")
    return dict(config)


def _checked_observations(names: list[str], known: set[str]) -> list[str]:
    for name in names:
        _require(name, str, "observation")
        if name not in known:
            raise ValueError(f"Unknown observation '{name}'.")
    return list(names)


def _check_action(action: np.ndarray) -> None:
    if not isinstance(action, np.ndarray):
        raise TypeError(f"action must be a numpy array, not {type(action).__name__}")
    if action.dtype != np.intc:
        raise ValueError(f"action must have dtype np.intc, not {action.dtype}")
    if action.shape != (len(_ACTIONS),):
        raise ValueError(f"action must have shape ({len(_ACTIONS)},), not {action.shape}")
    for (name, low, high), value in zip(_ACTIONS, action, strict=True):
        if not low <= value <= high:
            raise ValueError(f"{name}={value} is outside of [{low}, {high}]")
