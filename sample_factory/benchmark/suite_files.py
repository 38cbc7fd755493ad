"""Suites that users write, as YAML files.

Keys are those of the runner's files, `run_name cmd params envs env_bundle seeds per_env`, and `algos`,
`baselines`, `eval`, `expected_minutes`. Invariant: a key that means nothing is an error that names the
nearest one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.suites import SCRIPT_KEY, SUITES, Scoring, Suite
from sample_factory.runner.bundles import bundle_envs
from sample_factory.runner.description_files import DEFAULT_COMMAND
from sample_factory.runner.yaml_loading import load_yaml

_KEYS = (
    *("run_name", "about", "cmd", "params", "envs", "env_bundle", "seeds", "algos", "per_env", "baselines"),
    *("eval", "expected_minutes"),
)
_EVAL_KEYS = ("episodes", "checkpoint", "deterministic", "tag")


def find_suite(name: str) -> Suite:
    """A suite by its name, or from the file of that name.

    Raises:
        BenchmarkError: there is neither, or the file is wrong.
        RunnerError: the file is no YAML.
    """
    if name in SUITES:
        return SUITES[name]
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return read_suite(path)
    nearest = difflib.get_close_matches(name, SUITES, n=1, cutoff=0.0)[0]
    raise BenchmarkError(f"there is no suite {name}; did you mean {nearest}? A file must end in .yaml.")


def read_suite(path: Path) -> Suite:
    """The suite in a YAML file."""
    content = load_yaml(path)
    _check_keys(content, _KEYS, str(path))
    algos = _mapping(content, "algos") or {"APPO": {}}
    for label, params in algos.items():
        if not isinstance(params, dict):
            raise BenchmarkError(f"{path}: algos must be like `{label}: {{use_rnn: false}}`.")
        if SCRIPT_KEY in params:
            # Scripts are named from where the file is, so that the file can be moved with them.
            params[SCRIPT_KEY] = str(path.parent / params[SCRIPT_KEY])
    return Suite(
        name=str(content.get("run_name", path.stem)),
        about=str(content.get("about", "")),
        envs=_envs(content, path),
        seeds=_seeds(content.get("seeds")),
        algos=algos,
        params=_mapping(content, "params"),
        per_env=_mapping(content, "per_env"),
        command=str(content.get("cmd", DEFAULT_COMMAND)),
        references=_references(_mapping(content, "baselines"), path),
        scoring=_scoring(_mapping(content, "eval"), path),
        expected_minutes=content.get("expected_minutes"),
    )


def _envs(content: Mapping[str, Any], path: Path) -> list[str]:
    if ("envs" in content) == ("env_bundle" in content):
        raise BenchmarkError(f"{path} needs either `envs: [doom_basic]` or `env_bundle: doom/basic`.")
    if "env_bundle" in content:
        return bundle_envs(str(content["env_bundle"]))
    envs = content["envs"]
    if not isinstance(envs, list) or not envs:
        raise BenchmarkError(f"{path}: envs must be a list, for example [doom_basic].")
    return [str(env) for env in envs]


def _seeds(section: Any) -> list[int]:
    if section is None:
        return list(range(10))
    if isinstance(section, dict):
        start = int(section.get("start", 0))
        return list(range(start, start + int(section.get("num", 10))))
    if isinstance(section, list) and section:
        return [int(seed) for seed in section]
    raise BenchmarkError("seeds must be a list such as [0, 1] or {num: 10, start: 0}.")


def _references(section: Mapping[str, Any], path: Path) -> dict[str, dict[str, float]]:
    try:
        return {str(env): {end: float(value) for end, value in ends.items()} for env, ends in section.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise BenchmarkError(
            f"{path}: baselines must be like `doom_basic: {{random: -1, expert: 0.95}}` ({error})."
        ) from error


def _scoring(section: Mapping[str, Any], path: Path) -> Scoring:
    _check_keys(section, _EVAL_KEYS, f"{path}: eval")
    return Scoring(**section)


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise BenchmarkError(f"{key} must hold `name: value` lines.")
    return dict(value)


def _check_keys(content: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    unknown = next((key for key in content if key not in known), None)
    if unknown is not None:
        nearest = difflib.get_close_matches(str(unknown), known, n=1, cutoff=0.0)[0]
        raise BenchmarkError(f"{place} has no key {unknown}; did you mean {nearest}?")
