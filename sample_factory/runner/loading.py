"""Finds the `RUN_DESCRIPTION` that `--run` names: a module, a file, or one of ours in `runner.runs`.

Invariant: an error inside the user's module is shown as what it is, with its place, never as "not found".
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from sample_factory.runner.errors import DescriptionImportError
from sample_factory.runner.run_description import RunDescription

OUR_RUNS = "sample_factory.runner.runs"


def import_description(run: str, debug: bool = False) -> RunDescription:
    """The description of a module.

    Args:
        run: the module's name, the path of a `.py` file, or the name of one of our own runs.
        debug: show the traceback of an error inside the module.

    Raises:
        DescriptionImportError: when there is none.
    """
    try:
        with _without_caches():
            module = _import(run)
    except DescriptionImportError:
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        raise DescriptionImportError(f"cannot import {run}: {_describe(error)}") from error
    description = getattr(module, "RUN_DESCRIPTION", None)
    if not isinstance(description, RunDescription):
        raise DescriptionImportError(f"{run} does not define RUN_DESCRIPTION = RunDescription(...).")
    return description


@contextmanager
def _without_caches() -> Iterator[None]:
    """Python's caches tell versions of a file apart by seconds and size; scripts edit faster than that."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _import(run: str) -> ModuleType:
    # `python -m` puts the working directory first; other ways to start the launcher do not.
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if run.endswith(".py"):
        return _import_file(Path(run))
    try:
        return importlib.import_module(run)
    except ModuleNotFoundError as error:
        if error.name is None or not (run == error.name or run.startswith(f"{error.name}.")):
            raise  # the module exists, and something that it imports does not
    try:
        return importlib.import_module(f"{OUR_RUNS}.{run}")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{OUR_RUNS}.{run}".startswith(error.name):
            raise
        raise DescriptionImportError(
            f"cannot import {run}: No module named {run!r}; start in your project's directory."
        ) from error


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise DescriptionImportError(f"cannot import {path}: there is no such file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _describe(error: Exception) -> str:
    """The last line of a traceback, and where it points."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    if isinstance(error, ImportError):
        return str(error)
    return f"{text} ({last.filename}:{last.lineno})"
