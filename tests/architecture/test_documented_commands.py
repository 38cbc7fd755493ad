"""What the README and the guides tell people to type is understood, and what is cheap is run."""

from __future__ import annotations

import ast
import importlib
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sample_factory.monitoring.log import close_logging
from tests.architecture.documented_commands import (
    PAGES,
    ROOT,
    SHORT_TRAINING,
    Command,
    check,
    commands_of,
    saved_scripts,
    scaled_down,
)

COMMANDS = [command for page in PAGES for command in commands_of(page)]
# Pages whose commands build on each other from an empty directory; those of others need results of hours.
TUTORIALS = ("README.md", "training.md", "monitoring.md", "reproducing_results.md")
# Looking at what a tutorial has not made is no mistake of the page: nothing failed, nothing is of Doom.
FINDS_NOTHING = 3


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_documented_command_is_understood(command: Command) -> None:
    check(command)


def test_there_are_commands_to_check() -> None:
    assert len({command.page for command in COMMANDS}) >= 8


@pytest.mark.parametrize(
    "text", ["sf ls --colour", "python -m sample_factory.tb", "pip install '.[quake]'", "frobnicate x"]
)
def test_a_command_that_would_not_work_is_noticed(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```bash\n{text}\n```\n")
    with pytest.raises(AssertionError):
        check(next(commands_of(page)))


@pytest.fixture
def as_before() -> Iterator[None]:
    """Sessions in this process set up logging and torch; the next test finds both as they were."""
    logger, threads = logging.getLogger("sample_factory"), torch.get_num_threads()
    propagate, level = logger.propagate, logger.level
    with torch.random.fork_rng():
        yield
    close_logging()
    logger.propagate = propagate
    logger.setLevel(level)
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("name", TUTORIALS)
def test_the_cheap_commands_of_a_page_run_in_their_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = next(page for page in PAGES if page.name == name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_dir").mkdir()
    ran = 0
    for command in commands_of(page):
        arguments = scaled_down(command)
        if arguments is not None:
            module = importlib.import_module(command.module)
            status = int(module.main(arguments) or 0)
            assert status in (0, FINDS_NOTHING) if "sf ls" in command.text else status == 0, (
                f"{command}: exit status {status}\n{capsys.readouterr().err}"
            )
            ran += 1
    assert ran >= 2


SCRIPTS = [
    pytest.param(command, id=str(command))
    for command in COMMANDS
    if command.arguments[:1] == ("python",) and command.arguments[1] in saved_scripts(command.page)
]


@pytest.mark.processes
@pytest.mark.parametrize("command", SCRIPTS)
def test_the_scripts_of_a_page_train(command: Command, tmp_path: Path) -> None:
    for name, code in saved_scripts(command.page).items():
        (tmp_path / name).write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, *command.arguments[1:], *SHORT_TRAINING]
    result = subprocess.run(
        arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert list(tmp_path.glob("train_dir/*/checkpoint_p0/*.pth"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_pages_is_python(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        ast.parse(block)


def links_of(page: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()) if "://" not in link]


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{page.name}: {link}"
        for page in pages
        for link in links_of(page)
        if not (page.parent / link).exists()
    ]
    assert not broken


def test_every_guide_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    guides = [page.name for page in (ROOT / "docs" / "guides").glob("*.md")]
    assert [name for name in guides if f"guides/{name}" not in index] == []


def test_the_index_tells_what_tests_add_to_a_command() -> None:
    assert f"`{' '.join(SHORT_TRAINING)}`" in (ROOT / "docs" / "README.md").read_text()
