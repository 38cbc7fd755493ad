"""An environment family for the tests of configuration, and an experiment directory of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.config.setting import Setting
from sample_factory.envs.registry import EnvFamily, register_family, temporary_registrations


def make_nothing(name: str, cfg: Any, env_config: Any = None, render_mode: str | None = None) -> Any:
    raise AssertionError("configuration never makes an environment")


@pytest.fixture(autouse=True)
def garden_family() -> Iterator[None]:
    """`garden_*`: two flags of its own, three changed defaults, one of them not declared in training."""
    family = EnvFamily(
        prefix="garden_",
        make_env=make_nothing,
        settings=(
            Setting("num_roses", int, 7, "Roses in the garden.", minimum=1),
            Setting("garden_api_key", str, None, "Key of the gate."),
        ),
        defaults={"batch_size": 512, "num_epochs": 3, "fps": 35},
    )
    with temporary_registrations():
        register_family(family)
        yield


@pytest.fixture
def doom_family() -> Iterator[None]:
    """The real Doom family, or one with the flags that the documented command lines use."""
    with temporary_registrations():
        if find_spec("sample_factory.envs.doom.family") is None:
            settings = (Setting("wide_aspect_ratio", bool, False, "Wide images."),)
            register_family(EnvFamily(prefix="doom_", make_env=make_nothing, settings=settings))
        yield


@pytest.fixture
def parse(tmp_path: Path) -> Callable[..., Config]:
    """Parses flags for `garden_small` with a train directory that is thrown away."""

    def parse_flags(*flags: str, evaluation: bool = False) -> Config:
        return parse_args(["--env=garden_small", f"--train_dir={tmp_path}", *flags], evaluation=evaluation)

    return parse_flags
