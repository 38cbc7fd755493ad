"""Running sessions in tests: in this process, or as the programs a user starts.

`Program` marks its processes through an environment variable, so that a test can tell what is left of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from sample_factory.algorithms.appo.session import ExitStatus, run_session
from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.model.checkpoints import Checkpoint, CheckpointStore
from sample_factory.monitoring.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "sample_factory.algorithms.appo.train_appo"
ENJOY = "sample_factory.algorithms.appo.enjoy_appo"
MARK = "SAMPLE_FACTORY_TEST_MARK"

SMALL = (
    "--algo=APPO",
    "--device=cpu",
    "--encoder_type=mlp",
    "--encoder_subtype=mlp_mujoco",
    "--encoder_extra_fc_layers=0",
    "--hidden_size=16",
    "--num_workers=2",
    "--num_envs_per_worker=4",
    "--rollout=8",
    "--recurrence=8",
    "--batch_size=64",
    "--decorrelate_experience_max_seconds=0",
    "--decorrelate_envs_on_one_worker=False",
    "--learning_rate=0.001",
    "--progress=plain",
)
FEED_FORWARD = ("--use_rnn=False",)
SERIAL = ("--serial_mode=True",)


def command_line(train_dir: Path, env: str, *flags: str, experiment: str = "experiment") -> list[str]:
    """A small session's flags; a later flag wins over an earlier one."""
    return [*SMALL, f"--env={env}", f"--train_dir={train_dir}", f"--experiment={experiment}", *flags]


def train(train_dir: Path, env: str, *flags: str, experiment: str = "experiment") -> ExitStatus:
    """Trains in this process (its workers, if any, are other processes)."""
    return run_session(parse_args(command_line(train_dir, env, *flags, experiment=experiment)))


def train_serially(train_dir: Path, env: str, *flags: str, experiment: str = "experiment") -> ExitStatus:
    """Trains with everything in this process."""
    return train(train_dir, env, *SERIAL, *flags, experiment=experiment)


def latest(train_dir: Path, experiment: str = "experiment", policy_id: int = 0) -> Checkpoint:
    """The newest checkpoint of a policy."""
    found = CheckpointStore(train_dir / experiment / f"checkpoint_p{policy_id}").load_latest()
    assert found is not None, f"{experiment} has no checkpoint"
    return found


def weights(train_dir: Path, experiment: str = "experiment", policy_id: int = 0) -> dict[str, torch.Tensor]:
    """The network of the newest checkpoint."""
    return latest(train_dir, experiment, policy_id).state["model"]


def same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Whether two networks are the same, bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def log_text(train_dir: Path, experiment: str = "experiment") -> str:
    """The experiment's log file."""
    return (train_dir / experiment / "sf_log.txt").read_text()


def metric(train_dir: Path, tag: str, experiment: str = "experiment", policy_id: int = 0) -> list[Any]:
    """Every value written under a tag, in order."""
    records = read_metrics(train_dir / experiment / "metrics.jsonl")
    return [record[tag] for record in records if tag in record and record["policy"] == policy_id]


class Program:
    """A program in a session of its own, as a shell would start it; ended with its test."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        module: str = TRAIN,
        script: str = "",
        python_path: Sequence[Path] = (),
    ):
        self.mark = uuid.uuid4().hex
        self.output_path = directory / f"output_{self.mark[:8]}.txt"
        self._shared_memory = set(os.listdir("/dev/shm"))
        start = [script] if script else ["-m", module]
        path = os.pathsep.join(map(str, (ROOT, *python_path)))
        environment = {**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *start, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """Everything it has written so far."""
        return self.output_path.read_text(errors="replace")

    def wait(self, seconds: float = 120.0) -> int:
        """Its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program did not end within {seconds} s:\n{self.output}") from None

    def wait_until(self, condition: Any, what: str, seconds: float = 60.0) -> None:
        """Waits for something to be true while the program runs."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {what} within {seconds} s:\n{self.output}"
            time.sleep(0.05)

    def signal_group(self, number: int) -> None:
        """What Ctrl+C, or a scheduler, does."""
        os.killpg(self.process.pid, number)

    def family(self) -> list[psutil.Process]:
        """All living processes that descend from the program, whoever their parent is now."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found

    def assert_nothing_left(self, seconds: float = 10.0) -> None:
        """No process of the program lives on, and nothing that nobody uses is left in shared memory."""
        deadline = time.monotonic() + seconds
        while (left := self.family()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, f"left behind: {left}"
        new = set(os.listdir("/dev/shm")) - self._shared_memory
        while (new := new & set(os.listdir("/dev/shm"))) and time.monotonic() < deadline + seconds:
            new -= _shared_memory_in_use()  # by another test, which will remove it
            time.sleep(0.2)
        assert not new, f"left in /dev/shm: {new}"

    def end(self) -> None:
        """Kills whatever is left."""
        for process in self.family():
            process.send_signal(signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10.0)


def _shared_memory_in_use() -> set[str]:
    """Names in /dev/shm that some living process has mapped: another program's, not a leftover."""
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            names |= set(re.findall(r"/dev/shm/(\S+)", maps.read_text()))
    return names


def config(train_dir: Path, env: str, *flags: str) -> Config:
    """The parsed configuration of a small session."""
    return parse_args(command_line(train_dir, env, *flags))


def child_pids() -> set[int]:
    """Fork servers and workers below this process; services of other tests are not meant."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "forkserver" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found
