"""One DeepMind Lab level as a gymnasium environment.

Image and instruction in, one of 9 or 15 actions out, with the reward reshaping of the DMLab-30 experiments;
the raw return goes into the episode's statistics. The simulator starts with the first reset, so an
environment that is only asked for its spaces costs nothing.

Invariant: an observation is never changed after it was handed out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from sample_factory.envs.contract import EXTRA_STATS, NUM_FRAMES, TRUE_REWARD
from sample_factory.envs.dmlab.actions import action_set
from sample_factory.envs.dmlab.instructions import MAX_WORDS, VOCABULARY_SIZE, encode_instruction
from sample_factory.envs.dmlab.level_cache import CacheCallbacks, DrawnSeed, LevelCache
from sample_factory.envs.dmlab.levels import known_level, len_key, raw_score_key
from sample_factory.envs.dmlab.seed_files import SEED_LIMIT
from sample_factory.envs.dmlab.simulator import (
    INSTRUCTION,
    RGB,
    LabOptions,
    require_deepmind_lab,
    reset_lab,
    start_lab,
)
from sample_factory.envs.wrappers import EnvWrapper

LAB_SEED = "lab_seed"  # key of `reset(options=...)`: plays the layout of this seed
BENCHMARK_SEED = 42

Observation = dict[str, np.ndarray]


@dataclass(frozen=True)
class DmlabOptions:
    """How one level is played and seen.

    Args:
        lab: how the simulator is started.
        task_id: position of the level among those trained on together.
        frameskip: frames each action is held for.
        extended_actions: 15 actions instead of 9.
        channels_last: images as HWC instead of CHW.
        throughput_benchmark: the same layout and random actions always, to measure speed.
        seed: of the random numbers until `reset` is given one.
    """

    lab: LabOptions
    task_id: int = 0
    frameskip: int = 4
    extended_actions: bool = False
    channels_last: bool = False
    throughput_benchmark: bool = False
    seed: tuple[int, ...] = (0,)


def reshape_reward(raw: float) -> float:
    """Squashes large rewards of either sign to within 5, and makes losses hurt less than gains please."""
    squashed = 5.0 * math.tanh(raw / 5.0)
    return squashed if raw >= 0 else 0.3 * squashed


class DmlabEnv(gym.Env[Any, Any]):
    """A DeepMind Lab level; `obs` is the image, `INSTR` the hashed words of the instruction.

    Args:
        options: how the level is played.
        cache: compiled levels, or None to compile each layout anew.
        render_mode: `rgb_array` or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012

    def __init__(
        self, options: DmlabOptions, cache: LevelCache | None = None, render_mode: str | None = None
    ) -> None:
        require_deepmind_lab()
        self.options = options
        self.render_mode = render_mode
        self.task_id = options.task_id
        self.level_path = options.lab.level_path
        self.curr_policy_idx = 0  # the engine keeps it up to date: each policy has its own used seeds
        self.np_random = np.random.default_rng(options.seed)

        self._cache = cache
        self._callbacks = CacheCallbacks(cache, self.level_path) if cache is not None else None
        self._lab: Any | None = None
        self._actions = action_set(options.extended_actions)
        self._instruction = ""
        self._encoded_instruction = encode_instruction("")
        self._frame = np.zeros((options.lab.height, options.lab.width, 3), np.uint8)
        self._episode_return = 0.0
        self._episode_frames = 0

        self.action_space = gym.spaces.Discrete(len(self._actions))
        self.observation_space = self._make_observation_space()

    @property
    def uses_level_cache(self) -> bool:
        """Whether layouts of this level come from the cache: known of DMLab-30, else seen at its resets."""
        if self._callbacks is None:
            return False
        level = known_level(self.level_path)
        return self._callbacks.was_asked or (level is not None and level.episodes_per_billion > 0)

    @property
    def asked_for_cached_level(self) -> bool:
        """Whether the simulator has asked for a cached layout at any reset so far."""
        return self._callbacks is not None and self._callbacks.was_asked

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode in a new layout, or in the one of `options["lab_seed"]`."""
        super().reset(seed=seed)
        if self._lab is None:
            self._lab = start_lab(self.options.lab, self._callbacks)
        drawn = self._draw_seed(options or {})
        if self._callbacks is not None:
            self._callbacks.drawn = drawn
        reset_lab(self._lab, self.options.lab, drawn.seed)
        self._episode_return = 0.0
        self._episode_frames = 0
        self._observe()
        return self._observation(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Holds an action for a frameskip; the last observation stays when the episode ends."""
        lab = self._lab
        if lab is None:
            raise RuntimeError("A DeepMind Lab environment must be reset before it is stepped.")
        if self.options.throughput_benchmark:
            action = int(self.np_random.integers(len(self._actions)))
        frames_before = lab.num_steps()
        raw_reward = lab.step(self._actions[action], num_steps=self.options.frameskip)
        frames = self._frames_since(frames_before)

        self._episode_return += raw_reward
        self._episode_frames += frames
        # Levels end when their time is up or their task is done; the simulator does not say which.
        terminated = not lab.is_running()
        info: dict[str, Any] = {NUM_FRAMES: frames}
        if terminated:
            info |= self._episode_info()
        else:
            self._observe()
        return self._observation(), reshape_reward(raw_reward), terminated, False, info

    def render(self) -> Any:
        """The image the agent saw last, `[height, width, 3]`."""
        return self._frame

    def close(self) -> None:
        """Stops the simulator; the next reset starts it again."""
        if self._lab is not None:
            self._lab.close()
            self._lab = None

    def _make_observation_space(self) -> gym.spaces.Dict:
        height, width, channels = self._frame.shape
        shape = (height, width, channels) if self.options.channels_last else (channels, height, width)
        spaces: dict[str, gym.Space] = {"obs": gym.spaces.Box(0, 255, shape, np.uint8)}
        if self.options.lab.with_instructions:
            spaces[INSTRUCTION] = gym.spaces.Box(0, VOCABULARY_SIZE, (MAX_WORDS,), np.int32)
        return gym.spaces.Dict(spaces)

    def _draw_seed(self, options: dict[str, Any]) -> DrawnSeed:
        if LAB_SEED in options:
            return DrawnSeed(int(options[LAB_SEED]), is_cached=False)
        if self.options.throughput_benchmark:
            return DrawnSeed(BENCHMARK_SEED, is_cached=False)
        if self._cache is not None and self.uses_level_cache:
            return self._cache.draw_seed(self.level_path, self.curr_policy_idx, self.np_random)
        return DrawnSeed(int(self.np_random.integers(SEED_LIMIT)), is_cached=False)

    def _frames_since(self, frames_before: int) -> int:
        """How many frames the last step took; fewer than a frameskip when the episode ended within it."""
        assert self._lab is not None
        return max(1, min(self.options.frameskip, int(self._lab.num_steps()) - frames_before))

    def _observe(self) -> None:
        assert self._lab is not None
        seen = self._lab.observations()
        self._frame = seen[RGB]
        if self.options.lab.with_instructions:
            instruction = _as_text(seen[INSTRUCTION])
            if instruction != self._instruction:
                self._instruction = instruction
                self._encoded_instruction = encode_instruction(instruction)

    def _observation(self) -> Observation:
        image = self._frame if self.options.channels_last else self._frame.transpose(2, 0, 1)
        image = image.copy()
        if not self.options.lab.with_instructions:
            return {"obs": image}
        return {"obs": image, INSTRUCTION: self._encoded_instruction}

    def _episode_info(self) -> dict[str, Any]:
        return {
            TRUE_REWARD: self._episode_return,
            EXTRA_STATS: {
                raw_score_key(self.task_id, self.level_path): self._episode_return,
                len_key(self.task_id, self.level_path): self._episode_frames,
            },
        }


class EnlargedRender(EnvWrapper):
    """Shows every pixel as a square of pixels: what an agent sees is too small for a person."""

    def __init__(self, env: gym.Env, factor: int = 6) -> None:
        super().__init__(env)
        self._factor = factor

    def render(self) -> Any:
        """The last image, enlarged."""
        frame = np.asarray(self.env.render())
        return frame.repeat(self._factor, axis=0).repeat(self._factor, axis=1)


def _as_text(value: Any) -> str:
    """Text observations are `str` or `bytes`, by version of the simulator, sometimes in a 0-d array."""
    if isinstance(value, np.ndarray):
        value = value.item()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
