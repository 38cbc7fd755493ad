"""One Atari game as a gymnasium environment, with the usual preprocessing in one class.

No-op starts, max over the last two frames of a skip, one episode per life, FIRE after a reset, 84x84 gray,
frame stack. Written against the emulator itself: a chain of wrappers would cost as much as the emulation.
Invariants: an observation is never changed after it was handed out; the game's score counts every frame
played, also those of resets; a new game starts only when the last one is over, timed out or abandoned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from sample_factory.envs.contract import EXTRA_STATS, NUM_FRAMES, TRUE_REWARD
from sample_factory.envs.registry import UnknownEnvError

SIDE = 84
NOOP = 0
FIRE = 1


@dataclass(frozen=True)
class AtariOptions:
    """How one game is played and seen."""

    game: str
    frameskip: int = 4
    framestack: int = 4
    limit_frames: int = 108_000
    max_noops: int = 30
    episodic_life: bool = True
    sticky_actions: float = 0.0
    channels_last: bool = False


class AtariEnv(gym.Env[np.ndarray, Any]):
    """An Atari game; an episode is one life, `true_reward` is the score of the whole game."""

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 60}  # noqa: RUF012

    def __init__(self, options: AtariOptions, render_mode: str | None = None) -> None:
        self.options = options
        rom = roms.get_rom_path(options.game)
        if rom is None:
            raise UnknownEnvError(f"The installed ale-py brings no ROM of {options.game}; 0.11 and 0.12 do.")
        self._rom = rom
        self.render_mode = render_mode
        # OpenCV starts a thread per core otherwise, in every worker.
        cv2.setNumThreads(1)
        self._ale = self._new_emulator(render_mode)
        self._load_rom(seed=0)
        self._buttons = [int(action.value) for action in self._ale.getMinimalActionSet()]
        self._needs_fire = FIRE in self._buttons

        height, width = self._ale.getScreenDims()
        self._screen = np.zeros((height, width), np.uint8)
        self._screen_before = np.zeros((height, width), np.uint8)
        self._stack = np.zeros((options.framestack, SIDE, SIDE), np.uint8)

        shape = (SIDE, SIDE, options.framestack) if options.channels_last else self._stack.shape
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(len(self._buttons))

        self._life_lost = False
        self._lives = 0
        self._game_score = 0
        self._game_frames = 0
        self._last_game_score: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Continues with the next life if a life was just lost, else starts a new game."""
        super().reset(seed=seed)
        if seed is not None:
            self._load_rom(int(self.np_random.integers(2**31 - 1)))
            self._life_lost = False
        if self._life_lost:
            self._play(NOOP, self.options.frameskip)
        if not self._life_lost or self._game_ended():
            self._new_game()
        if self._needs_fire:
            self._play(FIRE, self.options.frameskip)
            if self._game_ended():
                self._new_game()
        self._life_lost = False
        self._lives = self._ale.lives()
        self._stack = np.empty_like(self._stack)
        self._stack[:] = self._small_screen(self._stack[-1])
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Holds one action for a skip; the reward is the raw change of score."""
        score_before = self._game_score
        frames = self._play(self._buttons[action], self.options.frameskip)
        self._push_screen()

        game_over = self._ale.game_over(with_truncation=False)
        truncated = not game_over and self._game_frames >= self.options.limit_frames
        lives, self._lives = self._lives, self._ale.lives()
        life_lost = self.options.episodic_life and 0 < self._lives < lives
        self._life_lost = life_lost and not (game_over or truncated)

        info: dict[str, Any] = {NUM_FRAMES: frames}
        terminated = game_over or self._life_lost
        if game_over or truncated:
            self._last_game_score = self._game_score
            info[EXTRA_STATS] = {"game_score": self._game_score, "game_frames": self._game_frames}
        if terminated or truncated:
            info[TRUE_REWARD] = self._reported_score()
        return self._observation(), float(self._game_score - score_before), terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """The colour screen; with `human` the emulator shows its own window."""
        return self._ale.getScreenRGB() if self.render_mode == "rgb_array" else None

    def _new_emulator(self, render_mode: str | None) -> ALEInterface:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        ale = ALEInterface()
        ale.setFloat("repeat_action_probability", self.options.sticky_actions)
        ale.setBool("display_screen", render_mode == "human")
        return ale

    def _load_rom(self, seed: int) -> None:
        # The emulator takes a seed only while it loads a ROM.
        self._ale.setInt("random_seed", seed)
        self._ale.loadROM(self._rom)

    def _new_game(self) -> None:
        if self._life_lost:  # the game ended on the frames between two lives
            self._last_game_score = self._game_score
        self._life_lost = False
        noops = int(self.np_random.integers(1, self.options.max_noops + 1)) if self.options.max_noops else 0
        self._restart()
        if noops:
            self._play(NOOP, noops)
        if self._game_ended():
            self._restart()

    def _restart(self) -> None:
        self._ale.reset_game()
        self._ale.getScreenGrayscale(self._screen)
        self._game_score = 0
        self._game_frames = 0

    def _game_ended(self) -> bool:
        return self._ale.game_over(with_truncation=False) or self._game_frames >= self.options.limit_frames

    def _play(self, button: int, frames: int) -> int:
        """Holds a button, leaves the screen to see in `_screen`, and returns the frames really played."""
        ale = self._ale
        for played in range(1, frames + 1):
            self._game_score += ale.act(button)
            if ale.game_over(with_truncation=False):
                break
            if played == frames - 1:
                ale.getScreenGrayscale(self._screen_before)
        ale.getScreenGrayscale(self._screen)
        if played == frames > 1:
            # Sprites flicker: many games draw some of them only in every second frame.
            np.maximum(self._screen, self._screen_before, out=self._screen)
        self._game_frames += played
        return played

    def _small_screen(self, out: np.ndarray) -> np.ndarray:
        return cv2.resize(self._screen, (SIDE, SIDE), dst=out, interpolation=cv2.INTER_AREA)

    def _push_screen(self) -> None:
        stack = np.empty_like(self._stack)
        stack[:-1] = self._stack[1:]
        self._small_screen(stack[-1])
        self._stack = stack

    def _observation(self) -> np.ndarray:
        return np.moveaxis(self._stack, 0, -1) if self.options.channels_last else self._stack

    def _reported_score(self) -> float:
        # The end of a life is the end of an episode but says nothing about the score of a game:
        # it repeats the last finished game, so that the mean over episodes stays one over games.
        score = self._game_score if self._last_game_score is None else self._last_game_score
        return float(score)
