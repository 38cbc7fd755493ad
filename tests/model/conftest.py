"""Settings and spaces that the tests of the model package start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.config.parsing import default_cfg

MakeCfg = Callable[..., Config]


@pytest.fixture
def make_cfg() -> MakeCfg:
    """Default settings with some changed; `typed` are those that count as typed by the user."""

    def make(typed: dict[str, Any] | None = None, **changes: Any) -> Config:
        cfg = default_cfg()
        for name, value in {**changes, **(typed or {})}.items():
            assert name in cfg, f"no such setting: {name}"
            cfg[name] = value
        cfg.cli_args = dict(typed or {})
        return cfg

    return make


@pytest.fixture
def small_cfg(make_cfg: MakeCfg) -> MakeCfg:
    """The same with networks that compute in an instant."""

    def make(**changes: Any) -> Config:
        return make_cfg(**{"hidden_size": 16, **changes})

    return make


@pytest.fixture
def image_space() -> Callable[..., spaces.Box]:
    return lambda *shape: spaces.Box(0, 255, shape, np.uint8)


@pytest.fixture
def vector_space() -> Callable[[int], spaces.Box]:
    return lambda size: spaces.Box(-np.inf, np.inf, (size,), np.float32)


@pytest.fixture(autouse=True)
def same_random_numbers() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
