"""Reads YAML the way people mean it: `1e7` and `3e-4` are numbers, `yes`, `on` and `1:30` are text.

PyYAML follows YAML 1.1, where it is the other way round; this is YAML 1.2 on top of its safe loader.
`!literal [a, b]` is a list that is one value, and not several to choose from. Invariant: a key that is
written twice is an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sample_factory.runner.errors import RunnerError


class Literal(list[Any]):
    """A list that is meant as a single value."""


class _Loader(yaml.SafeLoader):
    """Without YAML 1.1's guesses."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """A dictionary whose keys are all different."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
        if repeated is not None:
            problem = f"{repeated!r} is written twice"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _number(loader: _Loader, node: Any) -> int | float:
    text = loader.construct_scalar(node)
    if text.startswith(("0x", "0o")):
        return int(text, 0)
    if text.lower().lstrip("+-") in (".inf", ".nan"):
        return float(text.replace(".", ""))
    return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)


def _literal(loader: _Loader, node: Any) -> Literal:
    return Literal(loader.construct_sequence(node, deep=True))


_NUMBER = re.compile(
    r"^(?:0x[0-9a-fA-F]+|0o[0-7]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
# Replaces what the parent class resolves; the keys are the characters a scalar may begin with.
_Loader.yaml_implicit_resolvers = {
    **{first: [("tag:yaml.org,2002:float", _NUMBER)] for first in "-+.0123456789"},
    **{first: [("tag:yaml.org,2002:bool", _BOOL)] for first in "tTfF"},
    **{first: [("tag:yaml.org,2002:null", _NULL)] for first in ("~", "n", "N", "")},
}
_Loader.add_constructor("tag:yaml.org,2002:float", _number)
_Loader.add_constructor("!literal", _literal)


def parse_yaml(text: str, source: str) -> Any:
    """The value of a YAML text.

    Args:
        text: what to read.
        source: what to call it in an error.

    Raises:
        RunnerError: when it is no YAML; the message says where.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        raise RunnerError(f"{source} can't be read{line}: {getattr(error, 'problem', error)}.") from error


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a file.

    Raises:
        RunnerError: when the file can't be read or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunnerError(f"--config={path} can't be read ({error.strerror}).") from error
    content = parse_yaml(text, f"--config={path}")
    if not isinstance(content, dict):
        raise RunnerError(
            f"--config={path} must hold `key: value` lines, for example `env_bundle: doom/basic`."
        )
    return content


def dump_yaml(values: dict[str, Any]) -> str:
    """A mapping as text; a literal list is an ordinary one there."""
    plain = {key: list(value) if isinstance(value, list) else value for key, value in values.items()}
    return yaml.safe_dump(plain, sort_keys=False)
