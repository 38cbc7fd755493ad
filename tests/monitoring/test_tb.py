import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sample_factory import tb


@pytest.fixture
def train_dir(tmp_path):
    for name in ("doom_a", "doom_b", "root/nested", "atari"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "doom_notes.txt").touch()
    return tmp_path


def test_masks_select_directories_only(train_dir):
    found = tb.matching_experiments(train_dir, ["doom*", "root/*"])
    assert found == {
        "doom_a": train_dir / "doom_a",
        "doom_b": train_dir / "doom_b",
        "root/nested": train_dir / "root/nested",
    }


def test_a_directory_matched_twice_appears_once(train_dir):
    assert list(tb.matching_experiments(train_dir, ["doom_a", "*_a"])) == ["doom_a"]


def test_no_match_is_one_sentence_naming_the_mask(train_dir):
    with pytest.raises(tb.TensorBoardError, match=r"^No experiment in .* matches quake\*; .*\.$"):
        tb.matching_experiments(train_dir, ["quake*"])


def test_the_home_directory_may_be_written_with_a_tilde(train_dir, monkeypatch):
    monkeypatch.setenv("HOME", str(train_dir))
    assert list(tb.matching_experiments(Path("~"), ["atari"])) == ["atari"]


def test_a_comma_in_a_path_is_refused_because_tensorboard_splits_there(train_dir):
    (train_dir / "a,b").mkdir()
    with pytest.raises(tb.TensorBoardError, match="comma"):
        tb.matching_experiments(train_dir, ["a,b"])


def test_the_command_lists_names_and_paths():
    command = tb.tensorboard_command(
        {"a": Path("/t/a"), "r:1/b": Path("/t/r:1/b")}, port=7000, reload_interval=5
    )
    assert command == [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir_spec=a:/t/a,r_1/b:/t/r:1/b",
        "--port=7000",
        "--reload_interval=5",
        "--max_reload_threads=8",
        "--samples_per_plugin=scalars=200",
    ]


def test_the_defaults_are_those_of_v1():
    args = tb.parse_args(["mask"])
    assert vars(args) == {
        "filters": ["mask"],
        "dir": "./train_dir",
        "port": 6006,
        "quiet": False,
        "refresh_every": 36000,
        "reload_interval": 60,
    }


def test_without_a_match_the_program_ends_with_an_error(train_dir, capsys):
    assert tb.main(["--dir", str(train_dir), "nothing"]) == 1
    assert capsys.readouterr().err.startswith("error: No experiment in ")


def test_a_missing_tensorboard_names_the_extra(train_dir, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert tb.main(["--dir", str(train_dir), "atari"]) == 1
    assert "sample-factory-rebuilt[tensorboard]" in capsys.readouterr().err


def test_a_child_that_outlives_its_time_is_ended():
    assert tb.run_for([sys.executable, "-c", "import time; time.sleep(600)"], 0.1, quiet=True) is None


def test_a_child_that_fails_gives_its_exit_code():
    assert tb.run_for([sys.executable, "-c", "raise SystemExit(3)"], 60, quiet=True) == 3


@pytest.mark.processes
@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_stopping_the_program_ends_the_whole_tree(stop_signal):
    grandchild = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    program = (
        "import signal, sys; from sample_factory import tb\n"
        "signal.signal(signal.SIGTERM, tb._stop)\n"
        f"tb.run_for([sys.executable, '-c', {child!r}], 600, quiet=False)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    grandchild_pid = int(process.stdout.readline())
    process.send_signal(stop_signal)
    process.wait(timeout=30)
    # Its end of the pipe closes when the last process of the tree is gone.
    assert process.stdout.read() == ""
    assert (
        not os.path.exists(f"/proc/{grandchild_pid}")
        or "Z" in Path(f"/proc/{grandchild_pid}/stat").read_text()
    )
