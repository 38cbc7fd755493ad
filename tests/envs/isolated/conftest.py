"""Python environments of their own for families whose packages conflict with the others.

They are kept in the user's cache directory, so only the first run installs anything.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sample_factory_test_envs"
INSTALL_TIMEOUT_SEC = 240
RUN_TIMEOUT_SEC = 150


def pytest_configure(config):
    config.addinivalue_line("markers", "isolated: installs packages into a Python environment of its own")


class IsolatedPython:
    """A virtual environment with a few packages; this repository is on its path, torch is not installed."""

    def __init__(self, *installs: tuple[str, ...]):
        digest = hashlib.sha256(repr((sys.version_info[:2], installs)).encode()).hexdigest()[:12]
        self.home = CACHE / digest
        self.installs = installs

    def prepare(self) -> None:
        """Installs the packages unless an earlier run did."""
        finished = self.home / "installed"
        if finished.exists():
            return
        subprocess.run([sys.executable, "-m", "venv", "--clear", self.home], check=True)
        for packages in self.installs:
            command = [self.home / "bin" / "pip", "install", "--quiet", *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SEC)
            if done.returncode != 0:
                pytest.skip(f"{' '.join(packages)} cannot be installed here: {done.stderr[-300:]}")
        finished.touch()

    def run(self, script: str) -> None:
        """Runs a script; its failure is the test's failure, with everything it printed."""
        done = subprocess.run(
            [self.home / "bin" / "python", "-c", script],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_SEC,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def isolated_python():
    """Makes an `IsolatedPython` from one tuple of packages per call of pip."""

    def make(*installs: tuple[str, ...]) -> IsolatedPython:
        python = IsolatedPython(*installs)
        python.prepare()
        return python

    return make
