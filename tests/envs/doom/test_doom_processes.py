"""Nothing outlives a game: not its engine, not its shared memory, not its files."""

import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from sample_factory.envs.contract import NUM_FRAMES
from sample_factory.envs.doom import janitor
from sample_factory.envs.doom.env import GameCrashedError
from sample_factory.envs.doom.game_process import file_lock, start_turn

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]
PLAY_AND_WAIT = """
import time
from sample_factory.config.parsing import parse_args
from sample_factory.envs.make import make_env
env = make_env("doom_basic", parse_args(["--env=doom_basic", "--algo=APPO"]), None)
env.reset()
print(env.unwrapped.game.get_instance_id(), flush=True)
time.sleep(600)
"""


def engines():
    return [child for child in psutil.Process().children() if child.name() == "vizdoom"]


def shared_memory_of(instance_id):
    return [name for name in os.listdir(janitor.SHARED_MEMORY) if instance_id in name]


def kill_engine():
    (engine,) = engines()
    engine.kill()
    engine.wait(10)


def is_dead(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def wait_until(condition, timeout_sec=20):
    deadline = time.monotonic() + timeout_sec
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_a_running_game_has_no_file_anywhere(make_doom, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = make_doom("doom_basic")
    env.reset()
    assert shared_memory_of(env.unwrapped.game.get_instance_id()) == []
    assert os.listdir(tmp_path) == []
    assert list(janitor.games_dir().glob(f"game_{os.getpid()}_*")) == []


def test_killing_the_owner_of_a_game_kills_the_game_and_leaves_nothing(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", PLAY_AND_WAIT],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        instance_id = owner.stdout.readline().strip()
        (engine,) = psutil.Process(owner.pid).children()
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        owner.stdout.close()
    assert wait_until(lambda: is_dead(engine))
    assert shared_memory_of(instance_id) == []
    assert os.listdir(tmp_path) == []


def test_eight_games_start_at_once_in_a_fresh_directory(make_doom, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    envs = [make_doom("doom_basic", vector_index=index) for index in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda env: env.reset(), envs))
    assert len(engines()) == 8
    assert all(env.step(0)[4][NUM_FRAMES] == 4 for env in envs)
    assert os.listdir(tmp_path) == []


def test_an_engine_that_dies_cuts_the_episode_off_and_the_next_one_starts_a_new_game(make_doom):
    env = make_doom("doom_basic")
    env.reset()
    seen = env.step(1)[0]
    kill_engine()
    obs, reward, terminated, truncated, _ = env.step(1)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (obs == seen).all()
    env.reset()
    assert env.step(1)[4][NUM_FRAMES] == 4


def test_an_engine_that_dies_between_two_episodes_is_replaced(make_doom):
    env = make_doom("doom_basic")
    env.reset()
    kill_engine()
    env.reset()
    assert env.step(1)[4][NUM_FRAMES] == 4


def test_an_engine_that_keeps_dying_is_an_error(make_doom):
    env = make_doom("doom_basic")
    for _ in range(3):
        env.reset()
        kill_engine()
        env.step(1)
    env.reset()
    kill_engine()
    with pytest.raises(GameCrashedError):
        env.step(1)


def test_a_closed_environment_can_be_played_again(make_doom):
    env = make_doom("doom_basic")
    env.reset()
    env.close()
    assert engines() == []
    env.reset()
    assert env.step(0)[4][NUM_FRAMES] == 4


def test_ctrl_c_in_the_terminal_does_not_reach_the_engine(make_doom):
    make_doom("doom_basic").reset()
    (engine,) = engines()
    assert os.getpgid(engine.pid) != os.getpgid(0)


@pytest.fixture
def leavings():
    """Shared memory files of an instance that does not exist, an hour old."""
    instance_id = uuid.uuid4().hex[:10]
    paths = [janitor.SHARED_MEMORY / f"{prefix}{instance_id}" for prefix in janitor.SHARED_MEMORY_PREFIXES]
    for path in paths:
        path.touch()
        os.utime(path, (time.time() - 3600,) * 2)
    yield instance_id
    janitor.unlink_shared_memory(instance_id)


def test_the_janitor_unlinks_shared_memory_of_dead_games(leavings):
    janitor.sweep()
    assert shared_memory_of(leavings) == []


def test_the_janitor_spares_games_of_living_processes(leavings):
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "+viz_instance_id", leavings, "+use_mouse"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        living.stdout.readline()
        janitor.sweep()
        spared = shared_memory_of(leavings)
        living.stdin.close()
    assert len(spared) == 3


def test_the_janitor_spares_files_of_games_about_to_start(leavings):
    path = janitor.SHARED_MEMORY / f"ViZDoomSM{leavings}"
    os.utime(path)
    janitor.sweep()
    assert path.exists()


def test_the_last_words_of_a_game_that_died_while_starting_are_reported(caplog):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    directory = janitor.games_dir() / f"game_{dead.pid}_{uuid.uuid4().hex}"
    directory.mkdir()
    (directory / janitor.ENGINE_LOG).write_text("Loading.\nCould not bind to port.\n")
    janitor.sweep()
    assert "Could not bind to port." in caplog.text
    assert not directory.exists()


def test_a_lock_is_waited_for_no_longer_than_asked(tmp_path):
    with file_lock(tmp_path / "lock", timeout_sec=0.0) as first, file_lock(tmp_path / "lock", 0.1) as second:
        assert (first, second) == (True, False)


def test_a_game_starts_even_when_every_turn_is_taken():
    with start_turn(locks=1), start_turn(locks=1, timeout_sec=0.05):
        pass
