"""Several agents in one match, stepped in lock step: one environment that speaks in lists.

Each player is an environment around an engine of its own, driven by a thread of its own, because an engine
waits in every frame for the commands of all others. All players take a frame before any takes the next: an
engine that has run ahead serves nobody, and the others would wait for it for ever.

Invariant: no call waits for an engine longer than `CALL_TIMEOUT_SEC`, or `START_TIMEOUT_SEC` while people may
join. A match that breaks is ended as a time-out for everyone, and another one is started in its place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

import gymnasium

from sample_factory.envs.contract import IS_ACTIVE, NUM_FRAMES, RewardShaping, find_interface
from sample_factory.envs.doom.env import DoomEnv, GameCrashedError
from sample_factory.envs.doom.game_process import ENGINE_ERRORS, GameStartError, start_turn
from sample_factory.envs.doom.match import CONNECT_TIMEOUT_FOR_HUMANS_SEC, reserve_port

log = logging.getLogger(__name__)

CALL_TIMEOUT_SEC = 120.0
START_TIMEOUT_SEC = CONNECT_TIMEOUT_FOR_HUMANS_SEC + 60.0
START_ATTEMPTS = 3
NUM_MATCH_LOCKS = 20
MATCH_LOCK_TIMEOUT_SEC = 10.0

ENGINE_TROUBLE = (GameCrashedError, GameStartError, *ENGINE_ERRORS)

Observations = list[Any]
Infos = list[dict[str, Any]]
MultiStep = tuple[Observations, list[float], list[bool], list[bool], Infos]


class MatchBrokenError(RuntimeError):
    """An engine of the match died or does not answer."""


class MultiplayerDoomEnv(gymnasium.Env[Any, Any]):
    """A match between agents.

    Args:
        players: one wrapped `DoomEnv` per agent with a frame skip of 1, the host first.
        frameskip: frames each action is held.
        first_port: where the search for a free UDP port begins.
    """

    is_multiagent = True

    def __init__(self, players: Sequence[gymnasium.Env], frameskip: int, first_port: int):
        self.players = list(players)
        self.num_agents = len(self.players)
        self.observation_space = self.players[0].observation_space
        self.action_space = self.players[0].action_space
        self.render_mode = self.players[0].render_mode
        self._games = [_game_of(player) for player in self.players]
        self._shaping = [find_interface(player, RewardShaping) for player in self.players]
        self._frameskip, self._first_port = frameskip, first_port
        self._threads = ThreadPoolExecutor(self.num_agents, thread_name_prefix="doom_player")
        self._is_running = False

    def reset(  # type: ignore[override]  # lists: one entry per agent
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Starts a match."""
        seeds = [None if seed is None else seed + player for player in range(self.num_agents)]
        for attempt in range(START_ATTEMPTS):
            try:
                return self._start_episode(seeds)
            except MatchBrokenError as error:
                self._close_games()
                log.warning("A Doom match could not start (attempt %d): %s", attempt + 1, error)
        raise MatchBrokenError(
            f"A Doom match of {self.num_agents} players failed to start {START_ATTEMPTS} times."
        )

    def step(self, actions: Sequence[Any]) -> MultiStep:  # type: ignore[override]
        """Every agent holds its action for a skip; after the last step the next match has begun."""
        try:
            for _ in range(min(self._frameskip, self._games[0].frames_left) - 1):
                self._together([game.hold for game in self._games], actions)
            results = self._together([player.step for player in self.players], actions)
        except MatchBrokenError as error:
            return self._after_break(error)
        observations, rewards, terminated, truncated, infos = (
            list(part) for part in zip(*results, strict=True)
        )
        if any(terminated) or any(truncated):
            observations, _ = self.reset()
        return observations, rewards, terminated, truncated, infos

    def render(self) -> Any:
        """What the first player sees."""
        return self.players[0].render()

    def close(self) -> None:
        """Ends all games and their threads."""
        self._close_games()
        self._threads.shutdown(wait=True)

    def get_default_reward_shaping(self) -> dict[str, Any]:
        """The scheme all players start with; empty when the spec shapes nothing."""
        return self._shaping[0].get_default_reward_shaping() if self._shaping[0] else {}

    def get_current_reward_shaping(self, agent_index: int) -> dict[str, Any]:
        """The scheme in force for one agent."""
        shaping = self._shaping[agent_index]
        return shaping.get_current_reward_shaping(0) if shaping else {}

    def set_reward_shaping(self, reward_shaping: dict[str, Any], agent_index: int) -> None:
        """Replaces one agent's scheme from the next step on."""
        shaping = self._shaping[agent_index]
        if shaping:
            shaping.set_reward_shaping(reward_shaping, 0)

    def _start_episode(self, seeds: Sequence[int | None]) -> tuple[Observations, Infos]:
        resets = [_with_seed(player.reset) for player in self.players]
        if self._is_running:
            results = self._together(resets, seeds)
        else:
            with (
                start_turn(NUM_MATCH_LOCKS, MATCH_LOCK_TIMEOUT_SEC),
                reserve_port(self._first_port) as port,
            ):
                for game in self._games:
                    game.port = port
                results = self._together(resets, seeds, START_TIMEOUT_SEC)
            self._is_running = True
        return [obs for obs, _ in results], [info for _, info in results]

    def _together(
        self,
        calls: Sequence[Callable[[Any], Any]],
        arguments: Sequence[Any],
        timeout_sec: float = CALL_TIMEOUT_SEC,
    ) -> list[Any]:
        """Makes one call per player at the same time; if one fails, none of the others is left waiting."""
        futures: list[Future[Any]] = []
        try:
            futures += [
                self._threads.submit(call, value) for call, value in zip(calls, arguments, strict=True)
            ]
            done, unfinished = wait(futures, timeout_sec, FIRST_EXCEPTION)
        except BaseException:  # Ctrl+C too: players of a match that stopped half-way wait for each other
            self._kill_games()
            raise
        failed = next((future.exception() for future in done if future.exception()), None)
        if failed is None and not unfinished:
            return [future.result() for future in futures]
        self._kill_games()
        wait(futures, timeout_sec)
        if failed is not None and not isinstance(failed, ENGINE_TROUBLE):
            raise failed
        reason = failed or f"an engine did not answer for {timeout_sec:.0f} seconds"
        raise MatchBrokenError(str(reason)) from failed

    def _after_break(self, error: MatchBrokenError) -> MultiStep:
        log.warning("A Doom match broke off and another one starts: %s", error)
        self._close_games()
        observations, infos = self.reset()
        infos = [{**info, NUM_FRAMES: 0, IS_ACTIVE: False} for info in infos]
        count = self.num_agents
        return observations, [0.0] * count, [False] * count, [True] * count, infos

    def _kill_games(self) -> None:
        for game in self._games:
            game.kill_game()

    def _close_games(self) -> None:
        self._is_running = False
        for player in self.players:
            player.close()


def _game_of(player: gymnasium.Env) -> DoomEnv:
    game = player.unwrapped
    if not isinstance(game, DoomEnv):
        raise TypeError(f"A player of a Doom match must be a DoomEnv, not {game}.")
    return game


def _with_seed(reset: Callable[..., Any]) -> Callable[[int | None], Any]:
    return lambda seed: reset(seed=seed)
