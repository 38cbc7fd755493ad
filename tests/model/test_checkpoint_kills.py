"""A process killed at any stage of saving leaves the checkpoint before loadable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sample_factory.model.checkpoints import CheckpointStore

pytestmark = pytest.mark.processes

# Importing torch takes seconds: one process does it, then forks a child to die at each stage.
_DIE_AT_EVERY_STAGE = """
import json, os, sys
from pathlib import Path
import torch
from sample_factory.model import durable_files
from sample_factory.model.checkpoints import CheckpointStore


def die(*_, **__):
    os._exit(9)


class DiesHalfWay:
    def __init__(self, path):
        self.file = open(path, "wb", buffering=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        die()


stages = {
    "half the data": lambda: setattr(Path, "open", lambda self, mode: DiesHalfWay(self)),
    "before fsync": lambda: setattr(durable_files.os, "fsync", die),
    "before rename": lambda: setattr(durable_files.os, "replace", die),
    "after rename": lambda: setattr(durable_files, "flush_directory", die),
    "before deleting the old one": lambda: setattr(Path, "unlink", die),
}


def save_and_die(directory, prepare_death):
    store = CheckpointStore(directory, keep=1)
    store.save({"weight": torch.full((1000,), 1.0)}, policy_version=1, env_steps=10)
    prepare_death()
    store.save({"weight": torch.full((1000,), 2.0)}, policy_version=2, env_steps=20)
    os._exit(0)


codes = {}
for stage, prepare_death in stages.items():
    child = os.fork()
    if child == 0:
        save_and_die(Path(sys.argv[1]) / stage, prepare_death)
    codes[stage] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""


@pytest.fixture(scope="module")
def deaths(tmp_path_factory) -> tuple[Path, dict[str, int]]:
    """A directory for each stage, as the death there left it, and the exit codes."""
    directory = tmp_path_factory.mktemp("deaths")
    command = [sys.executable, "-c", _DIE_AT_EVERY_STAGE, str(directory)]
    output = subprocess.run(command, timeout=120, check=True, capture_output=True, text=True).stdout
    return directory, json.loads(output)


@pytest.mark.parametrize(
    ("stage", "version"),
    [
        ("half the data", 1),
        ("before fsync", 1),
        ("before rename", 1),
        ("after rename", 2),
        ("before deleting the old one", 2),
    ],
)
def test_a_killed_save_leaves_a_loadable_checkpoint(deaths, stage, version):
    directory, exit_codes = deaths
    loaded = CheckpointStore(directory / stage).load_latest()
    assert exit_codes[stage] == 9
    assert loaded.policy_version == version
    assert loaded.state["weight"].eq(float(version)).all()
    assert not list((directory / stage).glob("*.damaged"))


def test_the_next_session_cleans_up_after_a_killed_one(deaths):
    directory = deaths[0] / "before rename"
    assert len(list(directory.iterdir())) == 2
    CheckpointStore(directory, keep=1).save({}, policy_version=3, env_steps=30)
    assert [path.name for path in directory.iterdir()] == ["checkpoint_000000003_30.pth"]
