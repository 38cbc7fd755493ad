"""The guide covers every command, and its suite is one; its command lines are checked with all others."""

from __future__ import annotations

from pathlib import Path

from sample_factory.benchmark.commands import COMMANDS
from sample_factory.benchmark.suite_files import read_suite

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "benchmarking.md").read_text()


def test_every_command_is_in_the_guides_table() -> None:
    assert all(f"| `{command} " in GUIDE for command in COMMANDS)


def test_the_guides_suite_is_one(tmp_path: Path) -> None:
    path = tmp_path / "rnn_or_not.yaml"
    path.write_text(GUIDE.split("```yaml\n")[1].split("```")[0])
    suite = read_suite(path)
    assert suite.num_runs == 20
    suite.description()
