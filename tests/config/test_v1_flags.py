"""Every flag of v1 exists, with v1's type and default. The facts are in v1_flags.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sample_factory.config.parsing import default_cfg, parse_args
from sample_factory.config.setting import Setting
from sample_factory.config.table import settings_for

V1_FLAGS: dict[str, dict[str, list[Any]]] = json.loads(
    Path(__file__).with_name("v1_flags.json").read_text(encoding="utf-8")
)
EXAMPLES = {"str": "word", "int": "3", "float": "0.5", "bool": "tRuE"}
VALUES = {"str": "word", "int": 3, "float": 0.5, "bool": True}


def table(scope: str) -> dict[str, Setting]:
    settings = settings_for("APPO", evaluation=True) if scope == "EVALUATION" else settings_for(scope)
    return {setting.name: setting for setting in settings}


def flags_of(scope: str) -> list[tuple[str, list[Any]]]:
    return list(V1_FLAGS[scope].items())


def every_flag() -> list[Any]:
    return [
        pytest.param(scope, name, facts, id=f"{scope}-{name}")
        for scope in V1_FLAGS
        for name, facts in flags_of(scope)
    ]


def test_the_list_of_v1_flags_is_complete():
    assert {scope: len(flags) for scope, flags in V1_FLAGS.items()} == {
        "APPO": 99,
        "DUMMY_SAMPLER": 16,
        "EVALUATION": 6,
    }


@pytest.mark.parametrize(("scope", "name", "facts"), every_flag())
def test_flag_has_the_default_of_v1(scope: str, name: str, facts: list[Any]):
    symbols = {
        "<cwd>/train_dir": os.path.join(os.getcwd(), "train_dir"),
        "<cwd>/../recs": os.path.join(os.getcwd(), "..", "recs"),
        "<cpus>": os.cpu_count(),
    }
    expected = symbols.get(facts[1], facts[1]) if isinstance(facts[1], str) else facts[1]
    actual = table(scope)[name].default_value()
    assert actual == expected and type(actual) is type(expected)


@pytest.mark.parametrize(("scope", "name", "facts"), every_flag())
def test_flag_has_the_type_of_v1(scope: str, name: str, facts: list[Any]):
    setting = table(scope)[name]
    kind = "bool" if facts[0] == "switch" else facts[0]
    rules = facts[2] if len(facts) > 2 else {}
    assert setting.type.__name__ == kind
    assert setting.nargs == ("?" if facts[0] == "switch" else rules.get("nargs"))
    assert set(rules.get("choices", ())) <= set(setting.choices or ())


@pytest.mark.parametrize("scope", ["APPO", "DUMMY_SAMPLER", "EVALUATION"])
def test_all_flags_of_v1_can_be_typed_together(scope: str):
    argv = [] if scope == "EVALUATION" else [f"--algo={scope}"]
    argv += ["--env=garden_small"]
    expected = {}
    for name, (kind, _, *rest) in flags_of(scope):
        rules = rest[0] if rest else {}
        if name in ("algo", "env"):
            continue
        if name == "pixel_format":
            rules = {"choices": ["HWC"]}
        if kind == "switch":
            argv, expected[name] = [*argv, f"--{name}"], True
        elif "choices" in rules:
            argv, expected[name] = [*argv, f"--{name}={rules['choices'][-1]}"], rules["choices"][-1]
        elif "nargs" in rules:
            argv = [*argv, f"--{name}", EXAMPLES[kind], EXAMPLES[kind]]
            expected[name] = [VALUES[kind], VALUES[kind]]
        else:
            argv, expected[name] = [*argv, f"--{name}={EXAMPLES[kind]}"], VALUES[kind]
    cfg = parse_args(argv, evaluation=scope == "EVALUATION")
    assert {name: cfg[name] for name in expected} == expected


def test_dummy_sampler_has_exactly_the_flags_of_v1():
    assert set(table("DUMMY_SAMPLER")) == set(V1_FLAGS["DUMMY_SAMPLER"])


def test_default_configuration_needs_no_family():
    cfg = default_cfg()
    assert (cfg.algo, cfg.env, cfg.experiment, cfg.batch_size) == ("APPO", "env", "test", 1024)
