"""Games for tests: made from the family's own settings, and closed whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("vizdoom")

from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.doom.fetch_scenarios import FetchError, fetch
from sample_factory.envs.doom.scenario_files import cache_dir
from sample_factory.envs.make import make_env
from tests.envs.contract_check import family_cfg

MakeDoom = Callable[..., Any]


@pytest.fixture(scope="session")
def scenarios() -> None:
    """The scenarios that vizdoom does not ship, fetched into the user's cache once."""
    try:
        fetch(cache_dir())
    except (FetchError, OSError) as error:
        pytest.skip(f"the Doom scenarios could not be fetched: {error}")


@pytest.fixture
def make_doom() -> Iterator[MakeDoom]:
    """`make_doom(name, vector_index=0, render_mode=None, **settings)`."""
    made = []

    def make(name: str, vector_index: int = 0, render_mode: str | None = None, **settings: Any) -> Any:
        place = EnvConfig(worker_index=0, vector_index=vector_index, env_id=vector_index)
        made.append(make_env(name, family_cfg(name, settings), place, render_mode))
        return made[-1]

    yield make
    for env in made:
        env.close()
