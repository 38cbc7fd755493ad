"""A directory to launch from, and programs that record how they are called."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_factory.runner.run import main

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = [sys.executable, "-m", "sample_factory.runner.run"]


def wait_for(condition: Callable[[], Any], timeout: float = 60.0) -> Any:
    """Polls until something is true; fails the test when it never is."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout:g} seconds in vain")


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Project:
    """A directory with descriptions, from which the launcher is started."""

    def __init__(self, directory: Path):
        self.directory = directory

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def describe(self, *experiments: str, run_name: str = "run", **options: Any) -> str:
        """Writes a description; each experiment is the text between the parentheses of Experiment(...)."""
        listed = "\n".join(f"    Experiment({experiment})," for experiment in experiments)
        extra = "".join(f", {key}={value!r}" for key, value in options.items())
        path = self.write(
            f"{run_name}.py",
            "from sample_factory.runner.run_description import *\n"
            f"_experiments = [\n{listed}\n]\n"
            f"RUN_DESCRIPTION = RunDescription({run_name!r}, experiments=_experiments{extra})\n",
        )
        return f"--run={path.name}"

    def launch(self, *flags: str) -> int:
        """Runs the launcher in this process."""
        return main(["--pause_between=0", *flags])

    def start(self, *flags: str, **env: str) -> subprocess.Popen[str]:
        """Starts the launcher as a process of its own."""
        return subprocess.Popen(
            [*LAUNCHER, "--pause_between=0", *flags],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def manifest(self, run_name: str = "run") -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.run_dir(run_name).joinpath("manifest.json").read_text())
        return content

    def jobs(self, run_name: str = "run") -> dict[str, dict[str, Any]]:
        return {job["id"]: job for job in self.manifest(run_name)["jobs"]}

    def states(self, run_name: str = "run") -> dict[str, str]:
        return {name: job["state"] for name, job in self.jobs(run_name).items()}

    def run_dir(self, run_name: str = "run") -> Path:
        return self.directory / "train_dir" / run_name

    def everything_written(self) -> str:
        """The content of every file below the directory."""
        return "\n".join(
            path.read_text(errors="replace") for path in self.directory.rglob("*") if path.is_file()
        )


class Recorder:
    """Executables that write down how they were called."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.directory.mkdir()

    def install(self, name: str, script: str = "") -> None:
        """A program that records its arguments and environment, then runs a bit of shell."""
        path = self.directory / name
        record = self.directory / f"{name}.calls"
        note = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
        path.write_text(f"#!/bin/bash\n{sys.executable} -S -c '{note}' \"$@\" >> {record}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def calls(self, name: str) -> list[tuple[list[str], dict[str, str]]]:
        record = self.directory / f"{name}.calls"
        return (
            [tuple(json.loads(line)) for line in record.read_text().splitlines()] if record.exists() else []
        )
