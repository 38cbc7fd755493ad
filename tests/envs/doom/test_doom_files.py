"""Scenario files: found, fetched and checked, and missed with a sentence that helps."""

import hashlib
import zipfile

import pytest

from sample_factory.envs.contract import NUM_FRAMES
from sample_factory.envs.doom import fetch_scenarios
from sample_factory.envs.doom.scenario_files import (
    FETCH_COMMAND,
    MissingScenarioError,
    cache_dir,
    find_scenario_file,
)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one scenario in place of the real one; `content` is what is expected of it."""
    content = b"walls and monsters"
    monkeypatch.setattr(fetch_scenarios, "SHA256", {"battle.wad": hashlib.sha256(content).hexdigest()})

    def provide(inside):
        def download(scratch):
            wheel = scratch / "package.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, data in inside.items():
                    archive.writestr(f"{fetch_scenarios.FOLDER_IN_PACKAGE}/{name}", data)
            return wheel

        monkeypatch.setattr(fetch_scenarios, "_download", download)
        return content

    return provide


def test_the_cache_is_where_users_keep_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "sample_factory" / "doom_scenarios"


def test_without_its_scenario_an_environment_names_the_command_that_fetches_it(make_doom, empty_cache):
    with pytest.raises(MissingScenarioError, match=f"--env=doom_battle .*battle.wad.*{FETCH_COMMAND}"):
        make_doom("doom_battle")


def test_a_file_nobody_offers_is_not_said_to_be_fetchable(empty_cache):
    with pytest.raises(MissingScenarioError, match="absolute path"):
        find_scenario_file("my_scenario.cfg")


def test_without_its_scenario_the_benchmark_plays_another_one_and_says_so(make_doom, empty_cache, caplog):
    env = make_doom("doom_benchmark")
    assert "doom_benchmark plays deathmatch.wad" in caplog.text
    assert FETCH_COMMAND in caplog.text
    obs, _ = env.reset()
    assert (obs.shape, env.action_space.n) == ((3, 72, 128), 9)
    assert env.step(8)[4][NUM_FRAMES] == 4


def test_only_the_first_environment_speaks_of_the_benchmark(make_doom, empty_cache, caplog):
    make_doom("doom_benchmark", vector_index=1)
    assert caplog.text == ""


def test_with_its_scenario_the_benchmark_is_silent(make_doom, scenarios, caplog):
    make_doom("doom_benchmark")
    assert caplog.text == ""


def test_fetching_puts_the_files_into_the_folder(package, tmp_path):
    content = package({"battle.wad": b"walls and monsters", "other.py": b"ignored"})
    assert fetch_scenarios.fetch(tmp_path / "new") == ["battle.wad"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {"battle.wad": content}


def test_a_complete_folder_is_not_fetched_again(package, tmp_path):
    (tmp_path / "battle.wad").write_bytes(package({}))
    assert fetch_scenarios.fetch(tmp_path) == []


def test_a_damaged_file_is_replaced(package, tmp_path):
    content = package({"battle.wad": b"walls and monsters"})
    (tmp_path / "battle.wad").write_bytes(b"walls and")
    fetch_scenarios.fetch(tmp_path)
    assert (tmp_path / "battle.wad").read_bytes() == content


@pytest.mark.parametrize("inside", [{"battle.wad": b"something else"}, {}])
def test_a_wrong_package_leaves_nothing_in_the_folder(package, tmp_path, inside):
    package(inside)
    with pytest.raises(fetch_scenarios.FetchError, match=r"battle\.wad"):
        fetch_scenarios.fetch(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_failed_download_is_a_sentence_and_an_exit_code(monkeypatch, tmp_path, capsys):
    def fail(scratch):
        raise fetch_scenarios.FetchError("no network")

    monkeypatch.setattr(fetch_scenarios, "_download", fail)
    assert fetch_scenarios.main([f"--dest={tmp_path}"]) == 1
    assert capsys.readouterr().err == "The Doom scenarios could not be fetched: no network\n"
