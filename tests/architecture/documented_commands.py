"""The command lines in the README and the guides, and what can be said about each without knowing the page.

`check` parses a command with the parser of the program it calls. `scaled_down` is the command as tests run
it, if it is cheap; docs/README.md tells readers what is added.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from sample_factory.benchmark.commands import wrap_command
from sample_factory.cli import VERBS
from sample_factory.config.parsing import parse_args
from sample_factory.config.validation import validate
from sample_factory.envs.registry import temporary_registrations

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]

TRAINING = ("sample_factory.run_algorithm", "sample_factory.algorithms.appo.train_appo")
ENJOYING = "sample_factory.algorithms.appo.enjoy_appo"
BENCHMARK = "sample_factory.benchmark.__main__"
LOOKING = (
    "sample_factory.experiments.ls",
    "sample_factory.experiments.status",
    "sample_factory.experiments.plot",
)

SHORT_TRAINING = (
    "--serial_mode=True",
    "--train_for_env_steps=100",
    "--num_workers=1",
    "--batch_size=128",
    "--decorrelate_experience_max_seconds=0",
    "--stats_avg=1",
)
SHORT_ENJOYING = ("--max_num_episodes=1", "--no_render")


@dataclass(frozen=True)
class Command:
    """One command line of a page.

    Attributes:
        variables: set in front of it, as in `NAME=value command`.
        module: what runs, for `python -m` and `sf`; empty for anything else.
        arguments: those of the module, or all words.
    """

    page: Path
    line: int
    text: str
    variables: dict[str, str]
    module: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}: {self.text[:60]}"

    @property
    def is_training(self) -> bool:
        return self.module in TRAINING and not any(a.endswith("DUMMY_SAMPLER") for a in self.arguments)


def commands_of(page: Path) -> Iterator[Command]:
    """Every command in the page's bash blocks; a backslash continues a line."""
    text = page.read_text()
    for block in re.finditer(r"```bash\n(.*?)```", text, re.DOTALL):
        number = text[: block.start(1)].count("\n") + 1
        pending = ""
        for offset, line in enumerate(block[1].splitlines()):
            pending += line
            if pending.endswith("\\"):
                pending = pending[:-1]
                continue
            words = _without_redirection(shlex.split(pending, comments=True))
            if words:
                yield _command(page, number + offset, words)
            pending = ""


def _without_redirection(words: list[str]) -> list[str]:
    return words[: words.index(">")] if ">" in words else words


def saved_scripts(page: Path) -> dict[str, str]:
    """Python blocks that are followed by "Saved as `name.py`", by name."""
    found = re.findall(r"```python\n(.*?)```\s+Saved as `(\w+\.py)`", page.read_text(), re.DOTALL)
    return {name: code for code, name in found}


def _command(page: Path, line: int, words: list[str]) -> Command:
    text = " ".join(words)
    variables = {}
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    if words[:2] == ["python", "-m"]:
        is_package = (ROOT / words[2].replace(".", "/")).is_dir()
        module = f"{words[2]}.__main__" if is_package else words[2]
        return Command(page, line, text, variables, module, tuple(words[3:]))
    if words[0] == "sf" and len(words) > 1:
        assert words[1] in VERBS, f"{page.name}:{line}: `sf {words[1]}` does not exist"
        return Command(page, line, text, variables, VERBS[words[1]][0], tuple(words[2:]))
    return Command(page, line, text, variables, "", tuple(words))


def check(command: Command) -> None:
    """Fails if the program a command calls would not understand it."""
    if command.module in TRAINING:
        # A file of settings is what another command wrote, and it may say which environment is meant.
        typed = [a for a in command.arguments if not a.startswith("--cfg_file=")]
        given = [] if len(typed) == len(command.arguments) else ["--env=gym_CartPole-v1"]
        assert validate(parse_args([*given, *typed])) == []
    elif command.module == ENJOYING:
        parse_args(list(command.arguments), evaluation=True)
    elif command.module == BENCHMARK and command.arguments[:1] == ("wrap",):
        wrap_command.parse_options(list(command.arguments[1:]), command.variables)
    elif command.module:
        _check_with_own_parser(command)
    else:
        _check_program(command)


class _Understood(Exception):
    """The parser has accepted the command line; nothing shall be done about it."""


def _check_with_own_parser(command: Command) -> None:
    """Runs the module's main until its parser has accepted or refused the arguments."""
    module = importlib.import_module(command.module)
    # The examples' mains read the command line themselves.
    arguments = [list(command.arguments)] if inspect.signature(module.main).parameters else []
    typed = mock.patch.object(sys, "argv", [command.module, *command.arguments])
    with _stopping_after_parsing(), typed, temporary_registrations():
        try:
            module.main(*arguments)
        except _Understood:
            return
        except SystemExit as refusal:
            raise AssertionError(f"{command} is refused") from refusal
    raise AssertionError(f"{command}: {command.module} ended without parsing its command line")


@contextmanager
def _stopping_after_parsing() -> Iterator[None]:
    """While this lasts, argparse and the parser of settings raise `_Understood` instead of returning."""
    is_inside = False

    def stopping(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parse_and_stop(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_inside
            if is_inside:  # one parser calls another
                return parse(*args, **kwargs)
            is_inside = True
            try:
                parse(*args, **kwargs)
            finally:
                is_inside = False
            raise _Understood

        return parse_and_stop

    users = [
        module
        for module in sys.modules.values()
        if getattr(module, "__dict__", {}).get("parse_args") is parse_args
    ]
    with ExitStack() as patches:
        for method in ("parse_args", "parse_known_args"):
            plain = getattr(argparse.ArgumentParser, method)
            patches.enter_context(mock.patch.object(argparse.ArgumentParser, method, stopping(plain)))
        for user in users:
            patches.enter_context(mock.patch.object(user, "parse_args", stopping(parse_args)))
        yield


def _check_program(command: Command) -> None:
    program, *rest = command.arguments
    if program.startswith("./"):
        script = ROOT / program
        assert os.access(script, os.X_OK), f"{program} can't be run"
        assert subprocess.run(["bash", "-n", script]).returncode == 0
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for names in re.findall(r"\[(.*?)\]", " ".join(rest)):
            assert set(names.split(",")) <= set(extras), f"{command}: no such extra"
    elif program == "python" and rest[0] == "-c":
        compile(rest[1], str(command), "exec")
    elif program == "python":
        known = saved_scripts(command.page)
        assert rest[0] in known or (ROOT / rest[0]).exists(), f"{command}: the page has no script {rest[0]}"
    else:
        raise AssertionError(f"{command}: no test knows how to check {program}")


def scaled_down(command: Command) -> list[str] | None:
    """The arguments with which a test runs a command; None if it is not cheap."""
    on_gym = any(argument.startswith("--env=gym_") for argument in command.arguments)
    if command.is_training and on_gym:
        return [*command.arguments, *SHORT_TRAINING]
    if command.module == ENJOYING and on_gym:
        return [*command.arguments, *SHORT_ENJOYING]
    if (
        command.module in LOOKING
        and command.arguments[:1] != ("pbt",)
        and "--x=wall_clock" not in command.arguments
    ):
        return list(command.arguments)
    if command.module == BENCHMARK and command.arguments == ("summary", "train_dir"):
        return list(command.arguments)
    return None
