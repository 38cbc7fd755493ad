"""Jobs in windows of a tmux session, where a user can watch each of them.

Local like `processes`, and supervised the same way; a window shows the job's log while it runs. The
session survives the launcher and the terminal. With `--no-wait` the launcher itself moves into its first
window (`run_inside`). Invariant: secrets reach the session through tmux's socket, never through a command
line or a file.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence

from sample_factory.runner.backends.base import (
    WAITING,
    Observation,
    Started,
    SupervisedBackend,
    Watched,
    signal_supervisor,
)
from sample_factory.runner.commands import JobCommands, Launch
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.run_files import write_script

# Options of the session that tell later launchers whose it is, and which pane is not a job's.
_OWNER_OPTION = "@sample_factory_run"
_SHELL_OPTION = "@sample_factory_shell"
_OF_ONE_TERMINAL = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "COLUMNS", "LINES", "SHLVL", "_")
_CLOSING_SEC = 5.0
_CLOSING_POLL_SEC = 0.05


class TmuxBackend(SupervisedBackend):
    """Opens one window per job.

    Args:
        commands: what to run.
        session: the name of the session.
    """

    name = "tmux"
    is_local = True

    def __init__(self, commands: JobCommands, session: str):
        super().__init__(commands)
        if shutil.which("tmux") is None:
            raise RunnerError("--runner=tmux needs tmux; install it, or use --runner=processes.")
        self._session = session_name(session)
        self._owner = str(self._files.run_dir.absolute())

    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        """Tell the supervisors; a window that has not got that far is closed."""
        for item in watched:
            pid = self._supervisor_pid(item)
            if pid is not None:
                signal_supervisor(pid, force)
            elif item.attempt.id:
                _tmux("kill-pane", "-t", item.attempt.id, check=False)

    def prepare(self, launches: Sequence[Launch]) -> list[str]:
        """The scripts, and a file from which tmuxp makes the session."""
        windows = []
        for launch in launches:
            script = self._write_script(launch)
            windows.append((_window_name(launch), script))
        path = write_script(self._files.tmux_session(self._session), _tmuxp_text(self._session, windows))
        return [shlex.join(["tmuxp", "load", "-d", str(path)])]

    def hints(self) -> list[str]:
        """How to look at the windows."""
        return [f"watch with: tmux attach -t {self._session}"] if self._exists() else []

    def close(self) -> None:
        """A session of this run goes when no job is left in it; windows take a moment to close."""
        shell = self._option(_SHELL_OPTION)
        if self._option(_OWNER_OPTION) != self._owner or shell == os.environ.get("TMUX_PANE"):
            return
        deadline = time.monotonic() + _CLOSING_SEC
        while self._panes() != [shell] and time.monotonic() < deadline:
            time.sleep(_CLOSING_POLL_SEC)  # tmux tells only who asks
        if self._panes() == [shell]:
            _tmux("kill-session", "-t", f"={self._session}", check=False)

    def run_inside(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        """Run a launcher in the first window.

        Args:
            argv: its command.
            variables: what it and the jobs need in the environment.
        """
        if self._exists():
            raise RunnerError(f"tmux has a session {self._session} already; look at it with tmux attach.")
        self._ensure_session()
        self._set_environment(variables)
        command = f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(argv)}"
        pane = self._option(_SHELL_OPTION)
        _tmux("respawn-pane", "-k", "-t", pane, command)
        _tmux("rename-window", "-t", pane, "launcher")

    def _start(self, launches: Sequence[Launch]) -> list[Started]:
        self._ensure_session()
        return [self._open_window(launch) for launch in launches]

    def _ensure_session(self) -> None:
        if self._exists():
            if self._option(_OWNER_OPTION) != self._owner:
                raise RunnerError(
                    f"tmux has a session {self._session} of another run; choose another --tmux_session."
                )
            return
        # The first window stays for the user; it also keeps the session when the first jobs are short.
        created = _tmux("new-session", "-d", "-s", self._session, "-n", "shell", "-P", "-F", "#{pane_id}")
        for option, value in ((_OWNER_OPTION, self._owner), (_SHELL_OPTION, created.stdout.strip())):
            _tmux("set-option", "-t", f"={self._session}:", option, value)
        # A server has the environment of whoever started it; jobs expect the launcher's.
        self._set_environment(
            {name: value for name, value in os.environ.items() if name not in _OF_ONE_TERMINAL}
        )

    def _open_window(self, launch: Launch) -> Started:
        script = self._write_script(launch)
        self._set_environment(self._commands.environment(launch))
        target = ["-d", "-t", f"={self._session}:", "-n", _window_name(launch), "-P", "-F", "#{pane_id}"]
        opened = _tmux("new-window", *target, shlex.join([script]), check=False)
        if opened.returncode:
            return Started(error=f"tmux: {opened.stderr.strip()}")
        return Started(id=opened.stdout.strip(), log=str(self._files.log(launch.job.id)))

    def _write_script(self, launch: Launch) -> str:
        log = shlex.quote(str(self._files.log(launch.job.id).absolute()))
        # The job writes to its log, and the window follows it: a pipe through tee would lose the last
        # lines when the window closes. Outside of tmux, too, nobody follows a job that has ended.
        lines = [
            "#!/bin/bash",
            f"touch {log}",
            f"tail --pid=$$ -n 0 -f {log} &",
            f"exec >>{log} 2>&1",
            *self._commands.script_lines(launch, self._commands.supervised(launch)),
            "",
        ]
        return str(write_script(self._files.script(launch.job.id), "\n".join(lines)).absolute())

    def _set_environment(self, variables: Mapping[str, str]) -> None:
        lines = [
            f"set-environment -t {_quoted(f'={self._session}')} {_quoted(name)} {_quoted(value)}\n"
            for name, value in variables.items()
            if name.isidentifier() and "\n" not in value
        ]
        if lines:
            _tmux("source-file", "-", stdin="".join(lines))

    def _find(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        panes = _tmux("list-panes", "-a", "-F", "#{pane_id}", check=False).stdout.split()
        return {item.job_id: WAITING for item in watched if item.attempt.id in panes}

    def _panes(self) -> list[str]:
        listed = _tmux("list-panes", "-s", "-t", f"={self._session}", "-F", "#{pane_id}", check=False)
        return listed.stdout.split()

    def _exists(self) -> bool:
        return _tmux("has-session", "-t", f"={self._session}", check=False).returncode == 0

    def _option(self, name: str) -> str:
        return _tmux("show-options", "-v", "-t", f"={self._session}:", name, check=False).stdout.strip()


def session_name(text: str) -> str:
    """A name that tmux takes: it reads dots and colons as window and pane numbers."""
    return text.replace(".", "_").replace(":", "_")


def _window_name(launch: Launch) -> str:
    return f"job{launch.job.index:02d}"


def _tmuxp_text(session: str, windows: Sequence[tuple[str, str]]) -> str:
    lines = [f"session_name: {session}", "windows:"]
    for name, script in windows:
        lines += [f"- window_name: {name}", "  focus: false", "  panes:", f"  - {script}"]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """As tmux reads it: nothing is special between single quotes."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _tmux(*arguments: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    # In a session of its own, so that Ctrl+C at the launcher does not cut a command short.
    done = subprocess.run(
        ["tmux", *arguments], input=stdin, capture_output=True, text=True, check=False, start_new_session=True
    )
    if check and done.returncode:
        raise RunnerError(f"tmux {arguments[0]} failed: {done.stderr.strip()}")
    return done
