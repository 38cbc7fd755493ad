"""Clears what Doom games leave behind when they or their owners are killed.

`game_process` sweeps whenever a game starts or closes. Two things can be left: files in shared memory,
`/dev/shm/ViZDoom*<instance id>`, and the directory of a game that died while starting, with its last words.

Invariant: nothing of a living game is touched, whoever started it. A living game is one whose instance id
stands in some process's command line; files younger than `MIN_AGE_SEC` may belong to one about to start.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

log = logging.getLogger(__name__)

SHARED_MEMORY = Path("/dev/shm")
SHARED_MEMORY_PREFIXES = ("ViZDoomMQCtr", "ViZDoomMQDoom", "ViZDoomSM")
INSTANCE_ID_FLAG = b"+viz_instance_id"
ENGINE_LOG = "engine.log"
MIN_AGE_SEC = 60.0


def user_temp_dir() -> Path:
    """`<tmp>/sample_factory_<user>/`, where locks and the directories of starting games live."""
    path = Path(tempfile.gettempdir()) / f"sample_factory_{_user()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():  # what runs from there must be nobody else's
        raise PermissionError(f"{path} belongs to another user; set TMPDIR to a folder of your own.")
    return path


def games_dir() -> Path:
    """Holds one directory per game that is starting, named `game_<owner's pid>_...`."""
    path = user_temp_dir() / "doom_games"
    path.mkdir(exist_ok=True)
    return path


def sweep(min_age_sec: float = MIN_AGE_SEC) -> None:
    """Removes the leavings of dead games; costs next to nothing when there are none."""
    _sweep_shared_memory(min_age_sec)
    _sweep_game_dirs()


def unlink_shared_memory(instance_id: str) -> None:
    """Takes the names of one game's shared memory away; whoever has it mapped keeps it."""
    for prefix in SHARED_MEMORY_PREFIXES:
        (SHARED_MEMORY / f"{prefix}{instance_id}").unlink(missing_ok=True)


def _sweep_shared_memory(min_age_sec: float) -> None:
    if not SHARED_MEMORY.is_dir() or not Path("/proc/self/cmdline").exists():
        return
    found = _old_instances(min_age_sec)
    if found:
        for instance_id in found - _living_instances():
            with contextlib.suppress(PermissionError):
                unlink_shared_memory(instance_id)


def _old_instances(min_age_sec: float) -> set[str]:
    """Instance ids of this user's shared memory whose files are all old enough to judge."""
    old: set[str] = set()
    young: set[str] = set()
    with os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            prefix = next((p for p in SHARED_MEMORY_PREFIXES if entry.name.startswith(p)), None)
            if prefix is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                is_old = status.st_uid == os.getuid() and time.time() - status.st_mtime >= min_age_sec
                (old if is_old else young).add(entry.name.removeprefix(prefix))
    return old - young


def _living_instances() -> set[str]:
    """Instance ids in the command lines of all processes."""
    living = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended while we looked
            continue
        if INSTANCE_ID_FLAG in words[:-1]:
            living.add(words[words.index(INSTANCE_ID_FLAG) + 1].decode())
    return living


def _sweep_game_dirs() -> None:
    for directory in games_dir().glob("game_*"):
        owner_pid = directory.name.split("_")[1]
        if not _is_alive(int(owner_pid)):
            last_words = _last_words(directory)
            log.warning("A Doom game of process %s died while it was starting: %s", owner_pid, last_words)
            shutil.rmtree(directory, ignore_errors=True)


def _last_words(directory: Path) -> str:
    try:
        lines = (directory / ENGINE_LOG).read_text(errors="replace").split("\n")
    except OSError:
        lines = []
    return " | ".join(line.strip() for line in lines[-8:] if line.strip()) or "the engine said nothing"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id without a name
        return str(os.getuid())
