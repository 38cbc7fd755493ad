"""Compiled levels and used seeds on disk, shared by many processes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sample_factory.envs.dmlab.level_cache import CacheCallbacks, DrawnSeed, LevelCache
from sample_factory.envs.dmlab.seed_files import SeedFile

LEVEL = "contributed/dmlab30/rooms_keys_doors_puzzle"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path: Path) -> LevelCache:
    return LevelCache(tmp_path / "cache", tmp_path / "exp")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def write_lines(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def cached_file(tmp_path: Path) -> Path:
    return tmp_path / "cache/_contributed/dmlab30/rooms_keys_doors_puzzle.dm_lvl_seeds"


def used_file(tmp_path: Path, policy: str = "00") -> Path:
    return (
        tmp_path
        / f"exp/dmlab_used_lvl_seeds_p{policy}/_contributed/dmlab30/rooms_keys_doors_puzzle.dm_lvl_seeds"
    )


# --- compiled levels


def test_a_stored_level_lies_under_its_key_and_is_listed_with_its_seed(cache: LevelCache, tmp_path: Path):
    pk3 = tmp_path / "level.pk3"
    pk3.write_bytes(b"compiled")
    cache.store(LEVEL, 17, "abc123", pk3)
    assert (tmp_path / "cache/abc123").read_bytes() == b"compiled"
    assert cached_file(tmp_path).read_text() == "17 abc123\n"


def test_nothing_but_levels_and_lists_is_left_in_the_folder(cache: LevelCache, tmp_path: Path):
    pk3 = tmp_path / "level.pk3"
    pk3.write_bytes(b"compiled")
    cache.store(LEVEL, 17, "abc123", pk3)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["_contributed", "abc123"]


def test_a_stored_level_can_be_fetched(cache: LevelCache, tmp_path: Path):
    pk3 = tmp_path / "level.pk3"
    pk3.write_bytes(b"compiled")
    cache.store(LEVEL, 17, "abc123", pk3)
    assert cache.fetch("abc123", tmp_path / "out.pk3") is True
    assert (tmp_path / "out.pk3").read_bytes() == b"compiled"


def test_a_level_that_is_not_there_is_a_miss_and_leaves_no_file(cache: LevelCache, tmp_path: Path):
    assert cache.fetch("abc123", tmp_path / "out.pk3") is False
    assert not (tmp_path / "out.pk3").exists()


def test_a_level_that_is_there_already_is_not_replaced(cache: LevelCache, tmp_path: Path):
    for content in (b"first", b"second"):
        (tmp_path / "level.pk3").write_bytes(content)
        cache.store(LEVEL, 17, "abc123", tmp_path / "level.pk3")
    assert (tmp_path / "cache/abc123").read_bytes() == b"first"


def test_a_disk_that_refuses_costs_the_entry_and_not_the_training(
    cache: LevelCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "cache").write_text("a file where the folder should be")
    (tmp_path / "level.pk3").write_bytes(b"compiled")
    with caplog.at_level(logging.WARNING, logger="sample_factory"):
        cache.store(LEVEL, 17, "abc123", tmp_path / "level.pk3")
    assert "--dmlab_level_cache_path" in caplog.text


def test_a_level_that_cannot_be_read_is_compiled_again(cache: LevelCache, tmp_path: Path):
    (tmp_path / "cache/abc123").mkdir(parents=True)
    assert cache.fetch("abc123", tmp_path / "out.pk3") is False


# --- seeds


def test_cached_seeds_are_drawn_before_new_ones_and_each_once(cache: LevelCache, tmp_path: Path):
    write_lines(cached_file(tmp_path), *(f"{seed} key{seed}" for seed in range(50)))
    drawn = [cache.draw_seed(LEVEL, 0, rng()) for _ in range(60)]
    assert sorted(seed for seed, _ in drawn[:50]) == list(range(50))
    assert [is_cached for _, is_cached in drawn] == [True] * 50 + [False] * 10
    assert len({seed for seed, _ in drawn}) == 60


def test_cached_seeds_come_in_an_order_that_depends_on_the_random_numbers(tmp_path: Path):
    write_lines(cached_file(tmp_path), *(f"{seed} key{seed}" for seed in range(50)))
    orders = {
        tuple(
            LevelCache(tmp_path / "cache", tmp_path / f"exp{n}").draw_seed(LEVEL, 0, rng(n)).seed for _ in "a"
        )
        for n in range(20)
    }
    assert len(orders) > 5


def test_the_used_file_lists_drawn_seeds_one_per_line(cache: LevelCache, tmp_path: Path):
    drawn = [cache.draw_seed(LEVEL, 3, rng(n)).seed for n in range(3)]
    assert used_file(tmp_path, "03").read_text() == "".join(f"{seed}\n" for seed in drawn)


def test_seeds_used_in_an_earlier_run_of_the_experiment_are_not_drawn(cache: LevelCache, tmp_path: Path):
    write_lines(cached_file(tmp_path), "1 a", "2 b", "3 c")
    write_lines(used_file(tmp_path), "1", "3")
    assert cache.draw_seed(LEVEL, 0, rng()) == DrawnSeed(2, is_cached=True)
    assert cache.draw_seed(LEVEL, 0, rng()).is_cached is False


def test_a_seed_listed_twice_is_drawn_once(cache: LevelCache, tmp_path: Path):
    write_lines(cached_file(tmp_path), "7 a", "7 b")
    assert cache.draw_seed(LEVEL, 0, rng()) == DrawnSeed(7, is_cached=True)
    assert cache.draw_seed(LEVEL, 0, rng()).is_cached is False


def test_every_policy_may_play_every_cached_level(cache: LevelCache, tmp_path: Path):
    write_lines(cached_file(tmp_path), "7 a")
    assert cache.draw_seed(LEVEL, 0, rng()) == DrawnSeed(7, is_cached=True)
    assert cache.draw_seed(LEVEL, 1, rng()) == DrawnSeed(7, is_cached=True)


def test_environments_of_one_process_do_not_get_the_same_seed(tmp_path: Path):
    write_lines(cached_file(tmp_path), *(f"{seed} key{seed}" for seed in range(10)))
    caches = [LevelCache(tmp_path / "cache", tmp_path / "exp") for _ in range(2)]
    drawn = [cache.draw_seed(LEVEL, 0, rng()).seed for _ in range(5) for cache in caches]
    assert sorted(drawn) == list(range(10))


def test_a_level_that_another_process_adds_is_drawn_in_the_same_run(cache: LevelCache, tmp_path: Path):
    assert cache.draw_seed(LEVEL, 0, rng()).is_cached is False
    write_lines(cached_file(tmp_path), "7 a")
    assert cache.draw_seed(LEVEL, 0, rng()) == DrawnSeed(7, is_cached=True)


def test_a_new_seed_is_never_one_of_the_used(cache: LevelCache, tmp_path: Path):
    taken = int(rng(5).integers(2**31 - 1))
    write_lines(used_file(tmp_path), str(taken))
    assert cache.draw_seed(LEVEL, 0, rng(5)).seed != taken


def test_lines_cut_off_by_a_crash_are_skipped_and_do_not_swallow_the_next(tmp_path: Path):
    path = cached_file(tmp_path)
    write_lines(path, "1 a", "2 b")
    with open(path, "a") as file:
        file.write("31")
    seeds = SeedFile(path, fields=2)
    assert seeds.new_seeds().tolist() == [1, 2]
    with seeds.locked() as file:
        seeds.append(file, "4 d")
    assert seeds.new_seeds().tolist() == [4]


def test_lines_that_make_no_sense_are_skipped(tmp_path: Path):
    path = write_lines(cached_file(tmp_path), "", "x y", "-3 a", "99999999999 a", "5 a")
    assert SeedFile(path, fields=2).new_seeds().tolist() == [5]


def test_a_list_that_was_replaced_by_a_shorter_one_is_read_anew(tmp_path: Path):
    path = write_lines(cached_file(tmp_path), "1 a", "2 b", "3 c")
    seeds = SeedFile(path, fields=2)
    seeds.new_seeds()
    write_lines(path, "9 z")
    assert seeds.new_seeds().tolist() == [9]


def test_used_seeds_that_cannot_be_noted_do_not_stop_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "exp").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, logger="sample_factory"):
        drawn = LevelCache(tmp_path / "cache", tmp_path / "exp").draw_seed(LEVEL, 0, rng())
    assert 0 <= drawn.seed < 2**31 - 1
    assert "Cannot note used seeds" in caplog.text


# --- several processes

DRAW = """
import sys
from pathlib import Path
import numpy as np
from sample_factory.envs.dmlab.level_cache import LevelCache
folder, level, worker, draws = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
cache = LevelCache(folder / "cache", folder / "exp")
rng = np.random.default_rng(0)  # the same in all processes: only the files can keep them apart
print("ready", flush=True)
sys.stdin.readline()
print(*[cache.draw_seed(level, 0, rng).seed for _ in range(draws)])
"""

STORE = """
import sys
from pathlib import Path
from sample_factory.envs.dmlab.level_cache import LevelCache
folder, level, worker, levels = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
cache = LevelCache(folder / "cache", folder / "exp")
source = folder / f"{worker}.pk3"
print("ready", flush=True)
sys.stdin.readline()
for number in range(levels):
    source.write_bytes(b"level %d" % number)
    cache.store(level, 1000 * worker + number, f"key{number}", source)
print("done")
"""


def run_together(script: str, folder: Path, repeats: int, workers: int = 4) -> list[str]:
    """Starts processes that wait for each other, then lets them go; returns their last lines."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder), LEVEL, str(worker), str(repeats)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for worker in range(workers)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[0] for process in processes]


@pytest.mark.processes
def test_processes_that_draw_at_once_never_get_the_same_seed(tmp_path: Path):
    write_lines(cached_file(tmp_path), *(f"{seed} key{seed}" for seed in range(150)))
    drawn = [int(seed) for output in run_together(DRAW, tmp_path, repeats=50) for seed in output.split()]
    assert len(drawn) == len(set(drawn)) == 200
    assert set(range(150)) <= set(drawn)
    assert sorted(map(int, used_file(tmp_path).read_text().split())) == sorted(drawn)


@pytest.mark.processes
def test_processes_that_store_at_once_lose_no_line_and_tear_no_level(tmp_path: Path):
    run_together(STORE, tmp_path, repeats=30)
    lines = cached_file(tmp_path).read_text().splitlines()
    assert sorted(lines) == sorted(f"{1000 * worker + n} key{n}" for worker in range(4) for n in range(30))
    for number in range(30):
        assert (tmp_path / f"cache/key{number}").read_bytes() == b"level %d" % number


HOLD = """
import sys
from pathlib import Path
from sample_factory.envs.dmlab.seed_files import SeedFile
with SeedFile(Path(sys.argv[1]), fields=1).locked():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.processes
def test_a_process_that_is_killed_with_the_lock_does_not_block_the_others(cache: LevelCache, tmp_path: Path):
    arguments = [sys.executable, "-c", HOLD, str(used_file(tmp_path))]
    holder = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert cache.draw_seed(LEVEL, 0, rng()).seed >= 0


# --- what the simulator calls


def test_a_compiled_layout_is_listed_under_the_seed_of_the_reset(cache: LevelCache, tmp_path: Path):
    callbacks = CacheCallbacks(cache, LEVEL)
    callbacks.drawn = DrawnSeed(23, is_cached=False)
    (tmp_path / "level.pk3").write_bytes(b"compiled")
    assert callbacks.fetch("abc", str(tmp_path / "out.pk3")) is False
    callbacks.write("abc", str(tmp_path / "level.pk3"))
    assert cached_file(tmp_path).read_text() == "23 abc\n"
    assert callbacks.was_asked


def test_a_cached_seed_whose_layout_is_missing_is_warned_about_once(
    cache: LevelCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    callbacks = CacheCallbacks(cache, LEVEL)
    callbacks.drawn = DrawnSeed(23, is_cached=True)
    with caplog.at_level(logging.WARNING, logger="sample_factory"):
        callbacks.fetch("abc", str(tmp_path / "out.pk3"))
        callbacks.fetch("abc", str(tmp_path / "out.pk3"))
    assert caplog.text.count("seed 23") == 1
