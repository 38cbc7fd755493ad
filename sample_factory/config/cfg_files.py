"""`--cfg_file`: settings from a file, as if they were typed before everything else.

The parser calls `with_cfg_file` on every command line. Files are JSON (a tuned configuration, or the cfg.json
of another experiment) or YAML. Invariant: what is typed wins over the file, and a name in the file that is no
setting is the same error as a flag that is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_factory.config.errors import ConfigError
from sample_factory.config.precedence import NEVER_FROM_FILE

FLAG = "--cfg_file"
_MARK_OF_CFG_JSON = "cli_args"
_NOTHING = (None, "", "~", "null")


def with_cfg_file(argv: Sequence[str]) -> list[str]:
    """A command line with the settings of its `--cfg_file` in front; without one, the same.

    Raises:
        ConfigError: the file can't be read or holds something else.
    """
    path = _named(argv)
    if path is None:
        return list(argv)
    values = _read(path)
    if _MARK_OF_CFG_JSON in values:
        # An experiment's own file also says who it is and where it was.
        values = {name: value for name, value in values.items() if name not in NEVER_FROM_FILE}
    return [*_tokens(values, path), *argv]


def _named(argv: Sequence[str]) -> Path | None:
    for index, token in enumerate(argv):
        flag, given, value = token.partition("=")
        if flag == FLAG:
            value = value if given else next(iter(argv[index + 1 : index + 2]), "")
            return Path(value).expanduser()
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix in (".yaml", ".yml"):
            import yaml

            # All scalars stay text, which the flags read as if it was typed.
            values = yaml.load(text, Loader=yaml.BaseLoader)
        else:
            values = json.loads(text)
    except OSError as error:
        raise ConfigError(f"{FLAG}={path} can't be read ({error.strerror}).") from error
    except ImportError as error:
        raise ConfigError(f"{FLAG}={path} needs PyYAML: pip install PyYAML, or write JSON.") from error
    except Exception as error:  # PyYAML's errors share no base with json's, and the package is optional
        raise ConfigError(f"{FLAG}={path} is neither JSON nor YAML ({error}).") from error
    if not isinstance(values, dict):
        raise ConfigError(f'{FLAG}={path} must hold settings by name, for example {{"gamma": 0.99}}.')
    return values


def _tokens(values: Mapping[str, Any], path: Path) -> list[str]:
    tokens: list[str] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            raise ConfigError(f"{FLAG}={path}: {name} must be one value or a list of values.")
        if isinstance(value, list):
            tokens += [f"--{name}", *map(str, value)]
        elif value not in _NOTHING:
            tokens.append(f"--{name}={value}")
    return tokens
