"""A session that cannot begin says so in its record, where lists and the dashboard find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sample_factory.envs.registry import register_env
from sample_factory.experiments.reading import read
from tests.session.running import FEED_FORWARD, train_serially


def make_nothing(full_env_name: str, cfg: Any = None, env_config: Any = None) -> Any:
    raise OSError("the simulator is not licensed")


def test_an_environment_that_cannot_be_made_is_a_failure_with_its_error(tmp_path: Path) -> None:
    register_env("unlicensed_", make_nothing)
    with pytest.raises(OSError, match="not licensed"):
        train_serially(tmp_path, "unlicensed_1", *FEED_FORWARD)
    experiment = read("experiment", tmp_path / "experiment")
    assert experiment.status == "FAILED"
    assert experiment.problem == "OSError: the simulator is not licensed"
