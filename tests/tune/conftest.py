"""A directory to tune in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tune.workplace import ROOT, Workplace

pytest.importorskip("optuna", reason="no Optuna here (pip install optuna)")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Workplace(tmp_path)
