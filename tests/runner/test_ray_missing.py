"""Without Ray the launcher says what to install."""

from __future__ import annotations

import sys

import pytest

from tests.runner.launching import Project


def test_a_missing_ray_is_named_with_the_way_to_get_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert project.launch(project.describe('"x", "true"'), "--runner=ray") == 2
    assert "pip install ray" in capsys.readouterr().err
