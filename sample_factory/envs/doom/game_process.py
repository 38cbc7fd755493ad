"""One Doom engine process: started without litter, gone when its owner is gone.

`env.DoomEnv` owns one. The engine runs in a directory of its own that exists only while it starts, and its
shared memory loses its name as soon as both sides have mapped it: a `kill -9` at any later moment leaves
nothing.

Invariant: a running game has no file anywhere.

The library kills its own process (a segmentation fault) when the engine dies before its first frame; no
code here can catch that. Starting is therefore made unlikely to fail, and `janitor` reports the engine's
last words when the owner's successor starts.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import vizdoom

from sample_factory.envs.doom import janitor

LAUNCHER = Path(__file__).with_name("launcher.py")
NUM_START_LOCKS = 10
LOCK_TIMEOUT_SEC = 20.0
LOCK_ATTEMPTS = 3
ENGINE_ERRORS = (
    vizdoom.ViZDoomErrorException,
    vizdoom.ViZDoomIsNotRunningException,
    vizdoom.ViZDoomUnexpectedExitException,
    vizdoom.MessageQueueException,
    vizdoom.SharedMemoryException,
)


class GameStartError(RuntimeError):
    """The Doom engine did not start."""


class GameProcess:
    """A running game.

    Args:
        configure: sets up a fresh `DoomGame`; what the engine reads at its start may lie in the directory.
    """

    def __init__(self, configure: Callable[[vizdoom.DoomGame, Path], None]):
        self.game = vizdoom.DoomGame()
        janitor.sweep()
        directory = Path(tempfile.mkdtemp(prefix=f"game_{os.getpid()}_", dir=janitor.games_dir()))
        try:
            configure(self.game, directory)
            self.game.set_vizdoom_path(str(_launcher_script()))
            self.game.set_doom_config_path(str(directory / "engine.ini"))
            self._init()
            self._engine_pid = int((directory / "pid").read_text())
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        janitor.unlink_shared_memory(self.game.get_instance_id())

    def _init(self) -> None:
        try:
            self.game.init()
        except ENGINE_ERRORS as error:
            raise GameStartError(f"The Doom engine did not start: {error}") from error

    def kill(self) -> None:
        """Ends the engine at once; a thread that waits for it gets an error."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._engine_pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the engine and sweeps after games that could not do so themselves."""
        self.game.close()
        janitor.sweep()


@contextlib.contextmanager
def start_turn(locks: int = NUM_START_LOCKS, timeout_sec: float = LOCK_TIMEOUT_SEC) -> Iterator[None]:
    """Limits how many games of this user start at the same time, or the machine is too busy to start any.

    It is only a throttle: whoever has waited long enough starts all the same.
    """
    folder = janitor.user_temp_dir()
    with contextlib.ExitStack() as stack:
        for _ in range(LOCK_ATTEMPTS):
            path = folder / f"doom_{random.randrange(locks):03d}.lockfile"
            if stack.enter_context(file_lock(path, timeout_sec)):
                break
        yield


@contextlib.contextmanager
def file_lock(path: Path, timeout_sec: float) -> Iterator[bool]:
    """Holds an exclusive lock on a file; the value says whether it was obtained in time."""
    with path.open("a") as file:
        deadline = time.monotonic() + timeout_sec
        locked = _try_lock(file.fileno())
        while not locked and time.monotonic() < deadline:
            time.sleep(0.02)
            locked = _try_lock(file.fileno())
        yield locked  # closing the file gives the lock back


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _launcher_script() -> Path:
    """An executable that becomes the engine: the library takes a path, but no arguments to put first.

    One file serves all games of a user. A file of each game's own would now and then be "busy": while it is
    written, another thread's game may be forking, and the fork holds it open for a moment longer.
    """
    command = [sys.executable, "-I", "-S", str(LAUNCHER), vizdoom.exe_path]
    content = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    path = janitor.user_temp_dir() / f"doom_launcher_{hashlib.sha256(content.encode()).hexdigest()[:16]}.sh"
    if not path.exists():
        _install_executable(path, content)
    return path


def _install_executable(path: Path, content: str) -> None:
    """Puts an executable in place once it is known to run."""
    descriptor, partial = tempfile.mkstemp(dir=path.parent)
    with open(descriptor, "w") as file:
        file.write(content)
    os.chmod(partial, 0o700)
    deadline = time.monotonic() + LOCK_TIMEOUT_SEC
    while True:
        try:
            subprocess.run([partial], check=True)
            break
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                remedy = "set TMPDIR to a folder where they can"
                raise GameStartError(f"Programs cannot be run from {path.parent}; {remedy}.") from error
            time.sleep(0.01)
    os.replace(partial, path)
