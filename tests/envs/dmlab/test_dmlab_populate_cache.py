"""The script that compiles levels ahead of training."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sample_factory.envs.dmlab import dmlab_populate_cache
from sample_factory.envs.dmlab.dmlab_populate_cache import Target, main, share_of, targets_for
from sample_factory.envs.dmlab.levels import env_spec

STANDIN_PATH = Path(__file__).parent / "standin"
ROOT = Path(__file__).parents[3]
SLOW_RESET = "--env=dmlab_benchmark_slow_reset"  # 11200 layouts per 1e9 frames


def test_the_default_prepares_15_billion_frames():
    targets = targets_for(env_spec("dmlab_level_cache"), dmlab_populate_cache.TRAINING_FRAMES)
    assert len(targets) == 15
    assert sum(target.count for target in targets) == 1_336_500


def test_levels_that_are_not_generated_are_no_target():
    assert len(targets_for(env_spec("dmlab_30"), 10**9)) == 15
    assert targets_for(env_spec("dmlab_benchmark"), 10**9) == []


def test_45_workers_share_15_levels_three_to_a_level():
    targets = [Target(str(number), 1) for number in range(15)]
    shares = [share_of(worker, 45, targets) for worker in range(45)]
    assert all(len(share) == 1 for share in shares)
    assert set(Counter(share[0] for share in shares).values()) == {3}


def test_two_workers_take_every_level_between_them():
    targets = [Target(str(number), 1) for number in range(15)]
    assert (
        sorted((share_of(0, 2, targets) + share_of(1, 2, targets)), key=lambda t: int(t.level_path))
        == targets
    )


def arguments(tmp_path: Path, *others: str, frames: int = 300_000) -> list[str]:
    return [
        SLOW_RESET,
        f"--train_dir={tmp_path}/train",
        f"--dmlab_level_cache_path={tmp_path}/cache",
        f"--sample_env_frames={frames}",
        *others,
    ]


def listed(tmp_path: Path) -> list[str]:
    path = tmp_path / "cache/_contributed/dmlab30/rooms_keys_doors_puzzle.dm_lvl_seeds"
    return path.read_text().splitlines()


@pytest.mark.processes
def test_two_workers_compile_what_is_asked_for_and_stop(tmp_path: Path):
    script = "sample_factory.envs.dmlab.dmlab_populate_cache"
    result = subprocess.run(
        [sys.executable, "-m", script, *arguments(tmp_path, "--num_workers=2")],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{STANDIN_PATH}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "4 of 4 layouts" in result.stderr
    # 11200 per 1e9 frames: 3.36 for 300,000 frames, and each worker may finish one more than needed.
    assert 4 <= len(listed(tmp_path)) <= 5
    for line in listed(tmp_path):
        assert (tmp_path / "cache" / line.split()[1]).is_file()


@pytest.mark.processes
@pytest.mark.usefixtures("deepmind_lab")
def test_a_second_start_only_adds_what_is_missing(tmp_path: Path):
    main(arguments(tmp_path, "--num_workers=1", frames=200_000))
    before = listed(tmp_path)
    assert len(before) == 3
    assert main(arguments(tmp_path, "--num_workers=1", frames=400_000)) == 0
    assert listed(tmp_path)[:3] == before
    assert len(listed(tmp_path)) == 5


@pytest.mark.processes
@pytest.mark.usefixtures("deepmind_lab")
def test_a_worker_that_dies_after_some_levels_is_started_again(tmp_path: Path, monkeypatch):
    (tmp_path / "crash").write_text("2")
    monkeypatch.setenv("DMLAB_STANDIN_CRASH_FILE", str(tmp_path / "crash"))
    assert main(arguments(tmp_path, "--num_workers=1")) == 0
    assert len(listed(tmp_path)) == 4


@pytest.mark.processes
@pytest.mark.usefixtures("deepmind_lab")
def test_a_worker_that_gets_nothing_done_is_given_up(tmp_path: Path, monkeypatch):
    (tmp_path / "crash").write_text("0")
    monkeypatch.setenv("DMLAB_STANDIN_CRASH_FILE", str(tmp_path / "crash"))
    assert main(arguments(tmp_path, "--num_workers=1")) == 1


@pytest.mark.usefixtures("deepmind_lab")
def test_a_disk_without_room_stops_a_worker(tmp_path: Path, monkeypatch, make_cfg):
    monkeypatch.setattr(dmlab_populate_cache, "MIN_FREE_BYTES", 2**80)
    target = Target("contributed/dmlab30/rooms_keys_doors_puzzle", 1)
    with pytest.raises(SystemExit) as exit_info:
        dmlab_populate_cache.fill_level(make_cfg("dmlab_benchmark_slow_reset"), 0, target, os.getppid())
    assert exit_info.value.code == dmlab_populate_cache.DISK_IS_FULL


@pytest.mark.usefixtures("deepmind_lab")
def test_an_environment_without_generated_levels_is_refused(tmp_path: Path, capsys):
    assert main(["--env=dmlab_benchmark", f"--train_dir={tmp_path}"]) == 1
    assert "--env=dmlab_level_cache" in capsys.readouterr().err


@pytest.mark.usefixtures("no_deepmind_lab")
def test_without_the_module_the_script_says_how_to_build_it(tmp_path: Path, capsys):
    assert main(arguments(tmp_path)) == 1
    assert "not on PyPI" in capsys.readouterr().err


@pytest.mark.usefixtures("deepmind_lab")
def test_there_is_nothing_to_fill_without_a_cache(tmp_path: Path, capsys):
    assert main(arguments(tmp_path, "--dmlab_use_level_cache=False")) == 1
    assert "--dmlab_use_level_cache" in capsys.readouterr().err
