"""A machine that is too small for a session is told apart before anything starts."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from sample_factory.algorithms.appo import preflight
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.config.errors import ConfigError
from sample_factory.config.parsing import default_cfg


def _plan(num_workers: int) -> Plan:
    cfg = default_cfg()
    cfg["num_workers"], cfg["inference"] = num_workers, "rollout_workers"
    return Plan.make(cfg, agents_per_env=1, num_gpus=0, seed=0)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits of a process that has 200 descriptors and may ask for 500; later entries are requests."""
    found = [(200, 500)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, values: found.append(values))
    return found


def test_a_descriptor_limit_that_can_be_raised_is_raised(limits: list[tuple[int, int]]):
    preflight.check_machine(_plan(num_workers=40), store_mb=1.0)
    assert limits[1:] == [(64 + 8 * 41, 500)]


def test_a_descriptor_limit_that_can_not_be_raised_names_the_command_and_the_flag(
    limits: list[tuple[int, int]],
):
    with pytest.raises(ConfigError, match=r"101 processes need 872 .* 500: .*ulimit -n 872.*--num_workers"):
        preflight.check_machine(_plan(num_workers=100), store_mb=1.0)


def test_trajectories_that_do_not_fit_name_the_flags(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight, "available_memory_mb", lambda: 1000.0)
    preflight.check_machine(_plan(num_workers=2), store_mb=899.0)
    with pytest.raises(ConfigError, match=r"901 MB .* 1000 MB are free: use a smaller --batch_size"):
        preflight.check_machine(_plan(num_workers=2), store_mb=901.0)


@pytest.mark.parametrize(("limit", "expected_mb"), [("104857600", 60.0), ("max", None)])
def test_what_a_container_allows_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected_mb: float | None
):
    files = tmp_path / "max", tmp_path / "current"
    files[0].write_text(f"{limit}\n")
    files[1].write_text(f"{40 << 20}\n")
    monkeypatch.setattr(preflight, "CONTAINER_FILES", (tuple(map(str, files)), ("/nowhere", "/nowhere")))
    if expected_mb is not None:
        assert preflight.available_memory_mb() == expected_mb
    else:
        assert preflight.available_memory_mb() > 200.0
