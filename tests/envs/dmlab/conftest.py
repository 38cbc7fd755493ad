"""The stand-in for deepmind_lab on the path, and configurations whose files land in the test's own folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args

STANDIN_PATH = Path(__file__).parent / "standin"


def _forget_module() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "deepmind_lab"]:
        del sys.modules[name]


@pytest.fixture
def deepmind_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stand-in, imported anew for each test."""
    _forget_module()
    monkeypatch.syspath_prepend(str(STANDIN_PATH))
    import deepmind_lab

    yield deepmind_lab
    _forget_module()


@pytest.fixture
def no_deepmind_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the module, whatever is installed here."""
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)


MakeCfg = Callable[..., Config]


@pytest.fixture
def make_cfg(tmp_path: Path) -> MakeCfg:
    """`make_cfg("dmlab_30", res_w=32)`: the family's defaults with some settings replaced."""

    def make(env: str, **overrides: Any) -> Config:
        cfg = parse_args([f"--env={env}", "--algo=APPO", "--experiment=exp", f"--train_dir={tmp_path}/train"])
        cfg.dmlab_level_cache_path = str(tmp_path / "cache")
        for name, value in overrides.items():
            assert name in cfg, name
            cfg[name] = value
        return cfg

    return make
