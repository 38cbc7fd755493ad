"""Every command line of the guide is understood."""

from __future__ import annotations

import argparse
import importlib
import shlex
from pathlib import Path

import pytest

from sample_factory.benchmark.commands import COMMANDS, run_command, wrap_command
from sample_factory.benchmark.suite_files import read_suite

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "benchmarking.md").read_text()
PROGRAM = "python -m sample_factory.benchmark "
LINES = [
    line.split("#")[0].strip() for line in GUIDE.splitlines() if PROGRAM in line and not line.startswith("|")
]


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_the_guide_is_understood(line: str) -> None:
    variables, _, arguments = line.partition(PROGRAM)
    command, *rest = shlex.split(arguments)
    if command == "run":
        run_command.parser().parse_args(rest)
    elif command == "wrap":
        environment = dict(pair.split("=") for pair in variables.split())
        assert wrap_command.parse_options(rest, environment).arguments == ("--myarg=1234",)
    else:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"sample_factory.benchmark.commands.{command}_command").add_arguments(parser)
        parser.parse_args(rest)


def test_the_guide_has_command_lines() -> None:
    assert len(LINES) >= 8


def test_every_command_is_in_the_guides_table() -> None:
    assert all(f"| `{command} " in GUIDE for command in COMMANDS)


def test_the_guides_suite_is_one(tmp_path: Path) -> None:
    path = tmp_path / "rnn_or_not.yaml"
    path.write_text(GUIDE.split("```yaml\n")[1].split("```")[0])
    suite = read_suite(path)
    assert suite.num_runs == 20
    suite.description()
