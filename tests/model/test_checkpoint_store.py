"""Saving, rotating and loading checkpoints, also damaged ones and on full disks."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_factory.model import durable_files
from sample_factory.model.checkpoints import (
    CheckpointError,
    CheckpointStore,
    DamagedCheckpointError,
    load_checkpoint,
)


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoint_p0", keep=3)


def _state(version: int) -> dict[str, Any]:
    return {"model": {"weight": torch.full((50,), float(version))}}


def _save(store: CheckpointStore, *versions: int) -> list[Path]:
    return [store.save(_state(v), policy_version=v, env_steps=100 * v) for v in versions]


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:700])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = [_truncate, _flip, _empty]


def test_a_saved_checkpoint_is_loaded(store):
    (path,) = _save(store, 7)
    loaded = store.load_latest()
    assert path.name == "checkpoint_000000007_700.pth"
    assert (loaded.path, loaded.policy_version, loaded.env_steps) == (path, 7, 700)
    assert torch.equal(loaded.state["model"]["weight"], _state(7)["model"]["weight"])


def test_no_checkpoint_is_none(store):
    assert store.load_latest() is None
    assert store.load_best() is None
    assert store.load_milestone() is None
    assert store.load_version(3) is None


def test_the_newest_ones_are_kept(store):
    _save(store, 1, 2, 3, 4, 5)
    assert [file.policy_version for file in store.checkpoints()] == [3, 4, 5]
    assert len(_names(store.directory)) == 3


def test_versions_are_compared_as_numbers(store):
    _save(store, 999_999_999, 1_000_000_000)
    assert store.load_latest().policy_version == 1_000_000_000


def test_saving_one_version_twice_keeps_the_second(store):
    _save(store, 1)
    store.save({"model": "second"}, policy_version=1, env_steps=100)
    assert store.load_latest().state["model"] == "second"
    assert len(store.checkpoints()) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(store, damage, caplog):
    _, newest = _save(store, 1, 2)
    damage(newest)
    damaged_bytes = newest.read_bytes()
    with caplog.at_level(logging.ERROR, logger="sample_factory"):
        assert store.load_latest().policy_version == 1
    assert newest.name in caplog.text
    assert newest.with_name(newest.name + ".damaged").read_bytes() == damaged_bytes
    assert not newest.exists()


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_fresh_start_when_all_checkpoints_are_damaged(store, damage):
    for path in _save(store, 1, 2):
        damage(path)
    for _ in range(2):  # the second time they have been renamed already
        with pytest.raises(
            CheckpointError, match=r"All checkpoints in .* are damaged.*--restart_behavior=restart"
        ):
            store.load_latest()
    assert len(_names(store.directory)) == 2


def test_two_damaged_files_of_one_name_are_both_kept(store):
    for content in (b"one", b"two"):
        path = _save(store, 1, 2)[1]
        path.write_bytes(content)
        store.load_latest()
    kept = [path.read_bytes() for path in sorted(store.directory.glob("*.damaged*"))]
    assert kept == [b"one", b"two"]


def test_rotation_does_not_count_damaged_files_from_an_earlier_session(store):
    paths = _save(store, 1, 2, 3)
    _truncate(paths[1])
    _empty(paths[2])
    _save(CheckpointStore(store.directory, keep=3), 4)
    assert [file.policy_version for file in store.checkpoints()] == [1, 4]
    assert len(list(store.directory.glob("*.damaged"))) == 2


def test_training_on_after_a_fallback_is_never_deleted_in_favour_of_the_damaged_file(store):
    paths = _save(store, 10, 20, 30)
    _truncate(paths[2])
    resumed = CheckpointStore(store.directory, keep=2)
    assert resumed.load_latest().policy_version == 20
    _save(resumed, 21, 22, 23)
    assert resumed.load_latest().policy_version == 23
    assert [file.policy_version for file in resumed.checkpoints()] == [22, 23]


def test_checkpoints_of_an_abandoned_branch_are_set_aside(store, caplog):
    _save(store, 10, 20, 30)
    resumed = CheckpointStore(store.directory, keep=3)
    with caplog.at_level(logging.WARNING, logger="sample_factory"):
        _save(resumed, 15)
    assert resumed.load_latest().policy_version == 15
    assert sorted(path.name for path in store.directory.glob("*.superseded")) == [
        "checkpoint_000000020_2000.pth.superseded",
        "checkpoint_000000030_3000.pth.superseded",
    ]
    assert "checkpoint_000000030_3000.pth" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_given_path_is_loaded_or_refused_and_left_alone(store, damage):
    (path,) = _save(store, 3)
    assert load_checkpoint(path).policy_version == 3
    damage(path)
    with pytest.raises(DamagedCheckpointError, match=path.name):
        load_checkpoint(path)
    assert path.exists()


def test_a_missing_path_is_not_called_damaged(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "checkpoint_000000001_1.pth")


def test_files_of_another_program_are_refused_and_left_alone(store):
    store.directory.mkdir()
    path = store.directory / "checkpoint_000000005_9.pth"
    torch.save({"train_step": 5, "env_steps": 9, "model": {}, "optimizer": {}}, path)
    with pytest.raises(CheckpointError, match=r"another version of Sample Factory"):
        store.load_latest()
    assert _names(store.directory) == [path.name]


def test_milestones_are_copies_that_rotation_spares(store):
    (first,) = _save(store, 1)
    milestone = store.save_milestone(first)
    _save(store, 2, 3, 4, 5)
    assert milestone == store.directory / "milestones" / "checkpoint_000000001_100.pth.milestone"
    assert store.load_milestone().policy_version == 1
    assert store.load_version(1).path == milestone


def test_a_damaged_milestone_gives_way_to_the_one_before(store):
    milestones = [store.save_milestone(path) for path in _save(store, 1, 2)]
    _truncate(milestones[1])
    assert store.load_milestone().policy_version == 1


def test_one_best_checkpoint_is_kept(store):
    store.save_best(_state(1), policy_version=1, env_steps=10, metric="reward", value=1.5)
    path = store.save_best(_state(2), policy_version=2, env_steps=20, metric="reward", value=-2.25)
    assert path.name == "best_000000002_20_reward_-2.250.pth"
    assert _names(store.directory) == [path.name]
    loaded = store.load_best()
    assert (loaded.policy_version, loaded.best_value) == (2, -2.25)


def test_a_metric_with_slashes_stays_in_the_directory(store):
    store.save_best(_state(1), policy_version=1, env_steps=10, metric="z/00/score", value=1.0)
    assert _names(store.directory) == ["best_000000001_10_z_00_score_1.000.pth"]
    assert store.load_best().policy_version == 1


def test_a_damaged_best_checkpoint_is_an_error_that_names_another(store):
    path = store.save_best(_state(1), policy_version=1, env_steps=10, metric="reward", value=1.0)
    _save(store, 2)
    _truncate(path)
    with pytest.raises(CheckpointError, match="--load_checkpoint_kind=latest"):
        store.load_best()
    assert store.load_latest().policy_version == 2


def test_rolling_and_best_checkpoints_do_not_count_as_each_other(store):
    store.save_best(_state(9), policy_version=9, env_steps=10, metric="reward", value=1.0)
    _save(store, 1, 2, 3, 4)
    assert store.load_latest().policy_version == 4
    assert store.load_best().policy_version == 9


def test_an_exact_version_is_loaded_from_any_intact_copy(store):
    paths = _save(store, 1, 2)
    store.save_milestone(paths[0])
    _truncate(paths[0])
    assert store.load_version(1).path.name.endswith(".milestone")
    assert store.load_version(2).policy_version == 2


def test_a_damaged_exact_version_is_an_error_not_another_version(store):
    paths = _save(store, 1, 2)
    _truncate(paths[0])
    with pytest.raises(CheckpointError, match="damaged"):
        store.load_version(1)


def test_temporary_files_of_a_dead_session_are_removed_by_the_next_save(store):
    _save(store, 1)
    leftover = store.directory / ".temp_checkpoint_000000002_200.pth_abc"
    leftover.write_bytes(b"half a checkpoint")
    reader = CheckpointStore(store.directory)
    assert reader.load_latest().policy_version == 1
    assert leftover.exists()  # it could be of a writer that is alive
    _save(CheckpointStore(store.directory), 2)
    assert not leftover.exists()


@pytest.mark.parametrize("stage", ["write", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failed_save_changes_nothing_and_says_why(store, monkeypatch, stage, code):
    _save(store, 1, 2, 3)
    before = {path.name: path.read_bytes() for path in store.directory.iterdir()}

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    if stage == "write":
        monkeypatch.setattr(Path, "open", fail)
    else:
        monkeypatch.setattr(durable_files.os, stage, fail)
    with pytest.raises(CheckpointError, match=rf"can't be written \({os.strerror(code)}\).*--train_dir"):
        _save(store, 4)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in store.directory.iterdir()} == before


def test_a_really_full_disk_changes_nothing(store, monkeypatch):
    """/dev/full accepts being opened and fails on the first byte, like a full disk."""
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    _save(store, 1)
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode: original(Path("/dev/full"), mode))
    with pytest.raises(CheckpointError, match="No space left on device"):
        _save(store, 2)
    monkeypatch.undo()
    assert store.load_latest().policy_version == 1


def test_a_save_works_again_after_one_that_failed(store, monkeypatch):
    monkeypatch.setattr(
        durable_files.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
    )
    with pytest.raises(CheckpointError):
        _save(store, 1)
    monkeypatch.undo()
    _save(store, 2)
    assert store.load_latest().policy_version == 2


def test_an_unreadable_checkpoint_is_an_error_not_damage(store, monkeypatch):
    (path,) = _save(store, 1)

    def fail(self: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(CheckpointError, match="can't be read: Permission denied"):
        store.load_latest()
    assert path.exists()


def test_damage_in_a_directory_that_forbids_renaming_still_falls_back(store, monkeypatch):
    _, newest = _save(store, 1, 2)
    _truncate(newest)

    def fail(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", fail)
    assert store.load_latest().policy_version == 1
    assert newest.exists()


def test_a_reader_survives_the_deletion_of_the_file_it_was_about_to_read(store, monkeypatch):
    _save(store, 1, 2)
    original = Path.read_bytes

    def read(self: Path) -> bytes:
        if "000000002" in self.name:
            self.unlink()
        return original(self)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert CheckpointStore(store.directory).load_latest().policy_version == 1


def test_data_reaches_the_disk_before_its_name_and_then_the_directory(store, monkeypatch):
    _save(store, 1)
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        durable_files.os,
        "fsync",
        lambda fd: events.append(Path(f"/proc/self/fd/{fd}").resolve().name[:6]) or fsync(fd),
    )
    monkeypatch.setattr(durable_files.os, "replace", lambda a, b: events.append("replace") or replace(a, b))
    _save(store, 2)
    assert events == [".temp_", "replace", "checkp"]


def test_keeping_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--keep_checkpoints=1"):
        CheckpointStore(tmp_path, keep=0)


@settings(max_examples=25, deadline=None)
@given(
    keep=st.integers(1, 3),
    events=st.lists(
        st.sampled_from(["save", "damage newest", "damage oldest", "restart", "load"]), max_size=14
    ),
)
def test_the_newest_intact_checkpoint_is_never_lost(tmp_path_factory, keep, events):
    """Model: the set of versions that are intact on disk, by what we did to them."""
    directory = tmp_path_factory.mktemp("store")
    store = CheckpointStore(directory, keep=keep)
    intact: list[int] = []
    version, ever_saved = 0, False
    for event in events:
        files = store.checkpoints()
        if event == "save":
            version += 1
            _save(store, version)
            ever_saved = True
            intact = [
                v for v in [*intact, version] if any(f.policy_version == v for f in store.checkpoints())
            ]
            assert version in intact
            assert len(intact) <= keep
        elif event.startswith("damage") and files:
            file = files[-1] if event == "damage newest" else files[0]
            _truncate(file.path)
            intact = [v for v in intact if v != file.policy_version]
        elif event == "restart":
            store = CheckpointStore(directory, keep=keep)
        elif event == "load":
            if intact:
                assert store.load_latest().policy_version == intact[-1]
            elif ever_saved:
                with pytest.raises(CheckpointError):
                    store.load_latest()
            else:
                assert store.load_latest() is None
