"""Starts the Doom engine so that it cannot outlive, or get in the way of, the process that plays.

Run as a script by `game_process`, never imported: `launcher.py ENGINE ARGUMENTS...`. It enters the game's own
directory, where the `-config` file is (the engine writes where it is started), sends the engine's output to a
file there, leaves the terminal (Ctrl+C is for the owner), and asks the kernel to kill it with its owner.

Invariant: the engine keeps this process's id, and imports stay within what starts fast.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Prepares this process and becomes the engine; without arguments it only shows that it can be run."""
    if len(sys.argv) < 3:
        return
    engine, *arguments = sys.argv[1:]
    directory = os.path.dirname(arguments[arguments.index("-config") + 1])
    owner_pid = int(os.path.basename(directory).split("_")[1])
    os.chdir(directory)
    with open("pid", "w") as file:
        file.write(str(os.getpid()))
    log = os.open("engine.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != owner_pid:
            os._exit(1)  # the owner died before the kernel was asked
    os.execv(engine, [engine, *arguments])


if __name__ == "__main__":
    main()
