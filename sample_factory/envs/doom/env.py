"""One player's view of one Doom game, as a gymnasium environment.

Written against the engine itself: frame skip, scaling, time limit and channel order in one class, because a
step should cost the engine's work and little else. Wrappers add measurements and shaped rewards, and
`multiplayer` plays several of these in lock step.

Invariants: the game starts at the first `reset`, not before. Time is counted here, not by the engine, which
has no frame to show once its own time is up; so a time-out comes with the true final frame.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import vizdoom
from gymnasium import spaces

from sample_factory.envs.contract import NUM_FRAMES
from sample_factory.envs.doom.actions import ButtonEncoder
from sample_factory.envs.doom.bots import BotRoster, bot_definitions
from sample_factory.envs.doom.game_process import ENGINE_ERRORS, GameProcess, start_turn
from sample_factory.envs.doom.match import Seat, reserve_port
from sample_factory.envs.doom.scenario import NARROW, WIDE, Scenario, read_facts, set_up_game
from sample_factory.envs.wrappers import TERMINATED_BY_TIMER

log = logging.getLogger(__name__)

# The engine tells how many frames an action really took only through the reward for living, so each frame is
# paid this coin and changed back into the scenario's own reward. No other reward of one step comes near it.
FRAME_COIN = 2.0**20

ENDLESS = 10**9
MAX_CRASHES = 3  # in a row, before the environment gives up

# The engine counts these over all episodes of a process.
LIFELONG_COUNTERS = ("DEATHCOUNT", "HITCOUNT", "DAMAGECOUNT")
POSITION = {"agent_x": "POSITION_X", "agent_y": "POSITION_Y", "agent_a": "ANGLE"}


Step = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


class GameCrashedError(RuntimeError):
    """The engine died in the middle of a game."""


@dataclass(frozen=True)
class DoomOptions:
    """How a game is played and seen.

    Args:
        frameskip: frames each action is held.
        width: of the observation, made of the nearest pixels of what the engine draws.
        height: of the observation.
        wide: draw 256x144 instead of 160x120.
        channels_last: observe HWC instead of CHW.
        real_time: let the engine run by the clock instead of waiting for actions.
        limit_frames: longest episode, on top of the scenario's own limit; 0 is none.
    """

    frameskip: int = 4
    width: int = 128
    height: int = 72
    wide: bool = False
    channels_last: bool = False
    real_time: bool = False
    limit_frames: int = 0


class DoomEnv(gymnasium.Env[np.ndarray, Any]):
    """A Doom game.

    Args:
        scenario: what is played; text is the path of a `.cfg` file.
        action_space: see `actions`.
        options: how it is played and seen.
        render_mode: `rgb_array`, or `human` for the engine's own window.
        seat: this player's place in a match over the network; None plays alone.
        bots: called in by the host of a match.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 35}  # noqa: RUF012

    def __init__(
        self,
        scenario: Scenario | str,
        action_space: spaces.Space[Any],
        options: DoomOptions,
        render_mode: str | None = None,
        seat: Seat | None = None,
        bots: BotRoster | None = None,
    ):
        self.options, self.render_mode = options, render_mode
        self.record_to: str | None = None  # `recording.Recording` sets it: where demos go
        self.scenario, self.seat, self.bots = scenario, seat, bots
        self.port: int | None = None  # `multiplayer` sets it: one port for all players of a match
        self._facts = facts = read_facts(scenario)
        self._counters = [name for name in LIFELONG_COUNTERS if name in facts.variables]
        self._has_position = set(POSITION.values()) <= set(facts.variables)
        limits = [limit for limit in (facts.timeout_frames, options.limit_frames) if limit > 0]
        self._limit_frames = min(limits, default=ENDLESS)

        self.action_space = action_space
        self._buttons = _checked_encoder(action_space, facts.num_buttons, scenario)
        shape = (3, options.height, options.width)
        self._black = np.zeros(_arranged(shape, options.channels_last), np.uint8)
        self.observation_space = spaces.Box(0, 255, self._black.shape, np.uint8)
        self._scaled = frame_scaler(WIDE if options.wide else NARROW, options)

        self._process: GameProcess | None = None
        self._screen: np.ndarray | None = None  # the last frame as drawn, for `render`
        self._obs, self._info = self._black, dict[str, Any]()  # as last seen
        self._counted_before: dict[str, float] = {}
        self._frames_left = self._limit_frames
        self._engine_seed = 0
        self._episode = -1
        self._crashes = 0

    @property
    def frames_left(self) -> int:
        """Frames until the time-out of this episode."""
        return self._frames_left

    @property
    def game(self) -> vizdoom.DoomGame:
        """The running game."""
        if self._process is None:
            raise RuntimeError("The Doom game is not running: call reset() first.")
        return self._process.game

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode, and the game if need be."""
        super().reset(seed=seed)
        if seed is not None:
            self._engine_seed = self._draw_seed()
        self._episode += 1
        try:
            self._begin_episode(is_seeded=seed is not None)
        except ENGINE_ERRORS as error:
            self._note_crash(error)
            self._begin_episode(is_seeded=seed is not None)
        self._call_bots()
        self._frames_left = self._limit_frames
        self._counted_before = {}
        obs, info = self._observe()
        self._counted_before = {name: info[name] for name in self._counters}
        info.update(dict.fromkeys(self._counters, 0.0))
        return obs, info

    def step(self, action: Any) -> Step:
        """Holds the buttons of one action for a skip."""
        try:
            paid = self.game.make_action(
                self._buttons(action), min(self.options.frameskip, self._frames_left)
            )
        except ENGINE_ERRORS as error:
            return self._after_crash(error)
        frames = round(paid / FRAME_COIN)
        reward = (paid - frames * FRAME_COIN) + frames * self._facts.living_reward
        self._frames_left -= frames
        if self.game.is_episode_finished():
            return self._after_end(reward, frames)
        obs, info = self._observe()
        info[NUM_FRAMES] = frames
        truncated = self._frames_left <= 0
        if truncated:
            info[TERMINATED_BY_TIMER] = True
            self._crashes = 0
        return obs, reward, False, truncated, info

    def hold(self, action: Any) -> None:
        """Plays one frame without looking; the next `step` returns its reward as well."""
        try:
            self.game.set_action(self._buttons(action))
            self.game.advance_action(1, False)
        except ENGINE_ERRORS as error:
            raise GameCrashedError(f"The Doom engine died: {error}") from error

    def render(self) -> np.ndarray | None:
        """The frame as the engine drew it, HWC; None where the engine shows a window of its own."""
        if self.render_mode != "rgb_array" or self._screen is None:
            return None
        return np.ascontiguousarray(self._screen.transpose(1, 2, 0))

    def kill_game(self) -> None:
        """Ends the engine from another thread, so that a call that waits for it returns with an error."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Ends the game; `reset` starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _begin_episode(self, is_seeded: bool) -> None:
        is_new_game = self._process is None
        if is_new_game:
            if not is_seeded:
                self._engine_seed = self._draw_seed()
            self._process = self._start_game()
        if is_seeded:
            self.game.set_seed(self._engine_seed)
        # A match is already under way when its players have found each other.
        if self.seat is None or not is_new_game:
            self.game.new_episode(self._demo_path())

    def _draw_seed(self) -> int:
        return int(self.np_random.integers(2**31))

    def _start_game(self) -> GameProcess:
        if self.port is not None:  # whoever gave it has taken the turn for all players of the match
            return GameProcess(self._configurer(self.port))
        with start_turn():
            if self.seat is None:
                return GameProcess(self._configurer(None))
            with reserve_port(self.seat.first_port) as port:
                return GameProcess(self._configurer(port))

    def _configurer(self, port: int | None) -> Callable[[vizdoom.DoomGame, Path], None]:
        def configure(game: vizdoom.DoomGame, directory: Path) -> None:
            set_up_game(game, self.scenario)
            resolution = "RES_256X144" if self.options.wide else "RES_160X120"
            game.set_screen_resolution(getattr(vizdoom.ScreenResolution, resolution))
            game.set_window_visible(self.render_mode == "human")
            game.set_mode(vizdoom.Mode.ASYNC_PLAYER if self.options.real_time else vizdoom.Mode.PLAYER)
            game.set_episode_timeout(0)
            game.set_living_reward(FRAME_COIN)
            game.set_seed(self._engine_seed)
            if self.seat is not None and port is not None:
                game.add_game_args(self.seat.arguments(port))
            if self.bots is not None:
                (directory / "bots.cfg").write_text(bot_definitions())
                game.add_game_args(f"+viz_bots_path {directory / 'bots.cfg'}")

        return configure

    def _demo_path(self) -> str:
        if self.record_to is None or self.seat is not None:
            return ""
        folder = Path(self.record_to).absolute()  # the engine's working directory is another one
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"e{self._episode:03d}.lmp")

    def _call_bots(self) -> None:
        if self.bots is not None:
            for command in self.bots.commands(self.np_random):
                self.game.send_game_command(command)

    def _observe(self) -> tuple[np.ndarray, dict[str, Any]]:
        state = self.game.get_state()
        self._screen = state.screen_buffer
        self._obs, self._info = self._scaled(state.screen_buffer), self._variables(state)
        return self._obs, self._info

    def _variables(self, state: Any) -> dict[str, Any]:
        if not self._facts.variables:
            return {}
        info: dict[str, Any] = dict(zip(self._facts.variables, state.game_variables.tolist(), strict=True))
        for name, before in self._counted_before.items():
            info[name] -= before
        if self._has_position:
            info["pos"] = {key: info[name] for key, name in POSITION.items()}
        return info

    def _after_end(self, reward: float, frames: int) -> Step:
        """The engine has nothing to show any more: a black frame, and the variables as last seen."""
        self._crashes = 0
        info = {**self._info, NUM_FRAMES: frames}
        if self.seat is not None:  # nobody can end a match by winning it: its time is up
            return self._obs, reward, False, True, info
        return self._black, reward, True, False, info

    def _after_crash(self, error: Exception) -> Step:
        """Cuts the episode off where it was; the next `reset` starts a new game."""
        self._note_crash(error)
        return self._obs, 0.0, False, True, {**self._info, NUM_FRAMES: 0}

    def _note_crash(self, error: Exception) -> None:
        """Clears away a dead engine; raises when that is for somebody else to do, or happens too often."""
        self._crashes += 1
        others_wait = self.seat is not None and self.seat.rules.local_players > 1
        if others_wait or self._crashes > MAX_CRASHES:
            raise GameCrashedError(f"The Doom engine died: {error}") from error
        log.warning("The Doom engine died (%s); a new game starts.", error)
        self.close()


def frame_scaler(drawn: tuple[int, int], options: DoomOptions) -> Callable[[np.ndarray], np.ndarray]:
    """A function from the engine's CHW frames to observations, by taking the nearest pixels."""
    (drawn_width, drawn_height), (width, height) = drawn, (options.width, options.height)
    rows = np.arange(height) * drawn_height // height
    columns = np.arange(width) * drawn_width // width

    def scaled(frame: np.ndarray) -> np.ndarray:
        # In two steps: seven times as fast as both at once. Plain indexing would leave an order in memory
        # that costs whoever copies the frame more time than this takes.
        return frame.take(rows, axis=1).take(columns, axis=2)

    scale = (lambda frame: frame) if drawn == (width, height) else scaled
    return (lambda frame: scale(frame).transpose(1, 2, 0)) if options.channels_last else scale


def _arranged(shape: tuple[int, int, int], channels_last: bool) -> tuple[int, int, int]:
    channels, height, width = shape
    return (height, width, channels) if channels_last else shape


def _checked_encoder(space: spaces.Space[Any], num_buttons: int, scenario: Scenario | str) -> ButtonEncoder:
    encoder = ButtonEncoder(space)
    if encoder.num_buttons != num_buttons:
        name = scenario.wad if isinstance(scenario, Scenario) else scenario
        raise ValueError(
            f"The action space {space} covers {encoder.num_buttons} buttons, but {name} has {num_buttons}; "
            "give Discrete(n) for n-1 buttons of which one at a time is held."
        )
    return encoder
