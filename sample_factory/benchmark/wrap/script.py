"""A user's script: loaded, seeded, its `main(env=...)` called, and its variables handed out afterwards.

The body of `main` is put inside `try ... finally` that passes on its local variables, at the level of the
syntax tree: early returns, exceptions and multi-line strings work, and tracebacks show the script's own
lines.

Invariant: nothing of the script runs before the generators are seeded, and its `__main__` part never does.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sample_factory.benchmark.errors import BenchmarkError

SEED_VARIABLE = "SEED"
_HAND_OUT = "__benchmark_locals__"
_FALLBACK_NAME = "benchmarked_script"


class Script:
    """One script, from its file to its variables.

    Args:
        path: of the file; it must define `main(env=...)`.

    Raises:
        BenchmarkError: the file can't be read or parsed, or its `main` can't be called with `env` alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tree = _parsed(path)
        _check_main(self._tree, path)
        self._module: ModuleType | None = None
        self._locals: dict[str, Any] = {}

    def load(self, seed: int) -> None:
        """Runs the module, with seeded generators, and gives its `SEED`, if it has one, the value of ours."""
        name = self.path.stem
        if not name.isidentifier() or name in sys.modules:
            name = _FALLBACK_NAME
        module = ModuleType(name)
        module.__file__ = str(self.path)
        setattr(module, _HAND_OUT, self._locals.update)
        # Workers that the script starts find its functions by this name.
        sys.modules[name] = module
        self._module = module
        seed_everything(seed)
        exec(compile(_with_locals_handed_out(self._tree), str(self.path), "exec"), vars(module))
        if hasattr(module, SEED_VARIABLE):
            setattr(module, SEED_VARIABLE, seed)
        seed_everything(seed)

    def run(self, env: str) -> Any:
        """Calls `main(env=...)`; whatever it raises comes out."""
        if self._module is None:
            raise AssertionError("load comes before run")
        return self._module.main(env=env)

    def variables(self) -> dict[str, Any]:
        """What can be found by name now: variables of `main` first, then those of the module."""
        module = vars(self._module) if self._module is not None else {}
        return {**module, **self._locals}

    def namespace(self) -> Mapping[str, Any]:
        """The module's variables."""
        return vars(self._module) if self._module is not None else {}


@contextlib.contextmanager
def as_main_program(path: Path, arguments: list[str]) -> Iterator[None]:
    """Lets a script see its own arguments, and import its neighbours, as when it is started by hand."""
    argv, search_path = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search_path


def seed_everything(seed: int) -> None:
    """Seeds `random`, numpy and, where it is installed, torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.manual_seed(seed)


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise BenchmarkError(f"{path} can't be read ({error.strerror}); name a Python script.") from error
    except (SyntaxError, ValueError) as error:
        raise BenchmarkError(f"{path} is no Python script ({error}).") from error


def _check_main(tree: ast.Module, path: Path) -> None:
    main = _find_main(tree)
    if main is None:
        raise BenchmarkError(f"{path} must define main(env='Name') at its top level.")
    arguments = main.args
    positional = [argument.arg for argument in arguments.args]
    keyword_only = [argument.arg for argument in arguments.kwonlyargs]
    if "env" not in positional + keyword_only and arguments.kwarg is None:
        raise BenchmarkError(f"main of {path} has no parameter env; write it as main(env='Name').")
    required = positional[: len(positional) - len(arguments.defaults)]
    required += [argument.arg for argument in arguments.posonlyargs]
    required += [
        name for name, default in zip(keyword_only, arguments.kw_defaults, strict=True) if default is None
    ]
    others = [name for name in required if name != "env"]
    if others:
        raise BenchmarkError(f"main of {path} must be callable with env alone; give {others[0]} a default.")


def _find_main(tree: ast.Module) -> ast.FunctionDef | None:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    return found[-1] if found else None


def _with_locals_handed_out(tree: ast.Module) -> ast.Module:
    main = _find_main(tree)
    assert main is not None
    # A docstring is one only as the first statement, so it stays outside.
    head = 1 if ast.get_docstring(main, clean=False) is not None else 0
    body = main.body[head:] or [ast.Pass()]
    hand_out = ast.parse(f"{_HAND_OUT}(locals())").body
    main.body[head:] = [ast.Try(body=body, handlers=[], orelse=[], finalbody=list(hand_out))]
    for node in ast.walk(hand_out[0]):
        ast.copy_location(node, body[-1] if hasattr(body[-1], "lineno") else main)
    return ast.fix_missing_locations(tree)
