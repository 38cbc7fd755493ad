"""Environments that fail in every way a simulator can, and one whose game runs in a process of its own.

`faulty_<id>` is a gymnasium environment that strikes as `--faults` says: in its making, its `reset` or its
`step`, by an exception, an exit, a crash, a kill or a hang, at a given rate, up to a given number of times.
`game_pole` plays `pole_game`. The fault tests and `sf bench faults` use them.

Invariant: a fault is counted, in a file of the experiment, before it strikes; so all processes of a run
together never strike more often than they were told to.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.bench import pole_game
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import experiment_dir
from sample_factory.config.setting import Setting
from sample_factory.envs.registry import EnvFamily, register_family

PLACES = ("probe", "init", "reset", "step")  # probe: the environment that is only asked for its spaces
FAULTS_DIR = "faults"
UNLIMITED = 1_000_000
_OOM_BYTES = 64 << 20
_GAME_TIMEOUT_SEC = 600.0


class FaultyEnvError(RuntimeError):
    """What an environment that raises raises."""


def _raise() -> None:
    raise FaultyEnvError("the simulator has lost its mind")


def _crash() -> None:
    ctypes.string_at(0)


def _run_out_of_memory() -> None:
    """What the kernel does to the process that takes too much: it dies while it writes to fresh memory."""
    hoard = np.ones(_OOM_BYTES, np.uint8)
    os.kill(os.getpid(), signal.SIGKILL)
    del hoard


def _hang() -> None:
    while True:
        pass


FAULTS: dict[str, Callable[[], None]] = {
    "exception": _raise,
    "exit": lambda: os._exit(3),
    "segfault": _crash,
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "oom": _run_out_of_memory,
    "hang": _hang,
}


@dataclass(frozen=True)
class Fault:
    """One way to fail."""

    place: str
    kind: str
    rate: float = 1.0  # of the calls in this place
    limit: int = UNLIMITED  # strikes of all processes together

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Reads `place:kind[:rate[:limit]]`."""
        place, _, rest = text.partition(":")
        kind, *numbers = rest.split(":")
        if place not in PLACES or kind not in FAULTS or len(numbers) > 2:
            raise ConfigError(
                f"--faults={text} is not place:kind[:rate[:limit]] with a place of {', '.join(PLACES)} and a "
                f"kind of {', '.join(FAULTS)}: for example --faults=step:segfault:0.001."
            )
        rate = float(numbers[0]) if numbers else 1.0
        return cls(place, kind, rate, int(numbers[1]) if len(numbers) > 1 else UNLIMITED)

    def strike(self, directory: Path) -> None:
        """Fails, if it is time to."""
        if random.random() < self.rate and self._claim(directory):
            FAULTS[self.kind]()

    def _claim(self, directory: Path) -> bool:
        for number in range(self.limit):
            try:
                os.close(os.open(directory / f"{self.place}_{self.kind}_{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


class FaultyEnv(gymnasium.Wrapper):
    """An environment that strikes in its making, `reset` and `step`."""

    def __init__(self, env: gymnasium.Env, faults: list[Fault], directory: Path, is_probe: bool):
        super().__init__(env)
        self._faults = faults
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._maybe_fail("probe" if is_probe else "init")

    def _maybe_fail(self, place: str) -> None:
        for fault in self._faults:
            if fault.place == place:
                fault.strike(self._directory)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, or fails."""
        self._maybe_fail("reset")
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps, or fails."""
        self._maybe_fail("step")
        return self.env.step(action)


class GameEnv(gymnasium.Env):
    """The pole on a cart, played in a process of its own; a game that has died is an exception."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._game = subprocess.Popen(
            [sys.executable, "-I", "-S", pole_game.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        obs, _, _ = self._play(pole_game.NEW_EPISODE)
        return obs, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one frame."""
        obs, terminated, truncated = self._play(int(action))
        return obs, 1.0, terminated, truncated, {}

    def _play(self, command: int) -> tuple[np.ndarray, bool, bool]:
        assert self._game.stdin is not None and self._game.stdout is not None
        self._game.stdin.write(bytes([command]))
        readable, _, _ = select.select([self._game.stdout], [], [], _GAME_TIMEOUT_SEC)
        frame = self._game.stdout.read(pole_game.FRAME.size) if readable else b""
        if len(frame) < pole_game.FRAME.size:
            raise FaultyEnvError("the game has ended in the middle of an episode")
        *state, terminated, truncated = pole_game.FRAME.unpack(frame)
        return np.array(state, np.float32), bool(terminated), bool(truncated)

    def close(self) -> None:
        """Ends the game."""
        self._game.kill()
        self._game.wait(10.0)
        for pipe in (self._game.stdin, self._game.stdout):
            if pipe is not None:
                pipe.close()


def make_faulty_env(name: str, cfg: Any, env_config: Any, render_mode: str | None) -> gymnasium.Env:
    """Makes `faulty_<gymnasium id>`."""
    faults = [Fault.parse(text) for text in cfg.faults.split(",") if text]
    env = gymnasium.make(name.removeprefix(FAULTY_FAMILY.prefix))
    return FaultyEnv(env, faults, experiment_dir(cfg) / FAULTS_DIR, is_probe=env_config is None)


def make_game_env(name: str, cfg: Any, env_config: Any, render_mode: str | None) -> gymnasium.Env:
    """Makes `game_pole`."""
    return GameEnv()


FAULTY_FAMILY = EnvFamily(
    prefix="faulty_",
    make_env=make_faulty_env,
    settings=(Setting("faults", str, "", "Faults as place:kind[:rate[:limit]], separated by commas."),),
)
GAME_FAMILY = EnvFamily(prefix="game_", make_env=make_game_env)


def register_fault_envs() -> None:
    """Makes both families known to this process and to the workers of its sessions."""
    register_family(FAULTY_FAMILY)
    register_family(GAME_FAMILY)
