"""A project directory to launch from, recorded programs, and the real places where jobs run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runner.launching import ROOT, Project, Recorder, free_port, wait_for
from tests.runner.slurm_cluster import SlurmCluster, SlurmUnavailableError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Project(tmp_path)


@pytest.fixture
def end_process() -> Iterator[Callable[[subprocess.Popen[str]], subprocess.Popen[str]]]:
    """Registers a process that must not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def register(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        started.append(process)
        return process

    yield register
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{recorder.directory}:{os.environ['PATH']}")
    return recorder


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
    except SlurmUnavailableError as error:
        cluster.stop()
        pytest.skip(f"no Slurm here: {error}")
    yield cluster
    cluster.stop()


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.setenv("SLURM_CONF", str(running_slurm.configuration))
    return running_slurm


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tmux server of our own, apart from the user's."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here (apt-get install tmux)")
    # A socket's path may have about a hundred characters, and pytest's directories are long.
    with tempfile.TemporaryDirectory(prefix="sf") as directory:
        monkeypatch.setenv("TMUX_TMPDIR", directory)
        monkeypatch.delenv("TMUX", raising=False)
        yield
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """A real Ray of one node."""
    pytest.importorskip("ray", reason="no Ray here (pip install ray)")
    port = free_port()
    start = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    # Ray's sockets need short paths, too.
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        # The node would want a token that an earlier Ray left in the home directory; nobody would send it.
        patch.setenv("RAY_AUTH_MODE", "disabled")
        flags = [f"--port={port}", f"--temp-dir={directory}", "--node-ip-address=127.0.0.1", "--num-cpus=2"]
        flags += ["--include-dashboard=false", "--disable-usage-stats"]
        head = subprocess.Popen(
            [sys.executable, "-c", start, "start", "--head", "--block", *flags],
            # Workers start when there is something to do, and not for every driver in advance.
            env={**os.environ, "RAY_prestart_worker_first_driver": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: _answers(port), timeout=120)
        yield f"127.0.0.1:{port}"
        head.terminate()
        head.wait(60)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
