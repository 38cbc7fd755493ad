"""Descriptions as YAML files, and MiloZero's flat ones: `--config=file.yaml`.

A file becomes a `RunDescription`; flags of the command line come on top. Experiments are every
combination of trial (random or gridded sweep), paired values, grid, further axes, environment and seed,
in this order; names show these and nothing else. Invariant: every value is checked against the command's
own flags before anything starts, and no list is silently a choice.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_factory.runner.bundles import bundle_envs
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.parameters import ParamGrid, Params, ParamSample
from sample_factory.runner.run_description import Experiment, RunDescription
from sample_factory.runner.target_flags import TargetFlags, is_trainer, target_flags
from sample_factory.runner.yaml_loading import Literal, dump_yaml, load_yaml, parse_yaml

DEFAULT_COMMAND = "python -m sample_factory.algorithms.appo.train_appo"
_SECTIONS = (
    "run_name",
    "name",
    "cmd",
    "params",
    "env_bundle",
    "envs",
    "seeds",
    "grid",
    "paired",
    "sweep",
    "per_env",
    "runner",
    "env_vars",
)
_DEFAULT_TRIALS = 10


@dataclass
class Plan:
    """What a file and the command line say, before it is multiplied out."""

    run_name: str
    name: str
    command: str
    params: Params
    envs: list[str]
    seeds: list[int]
    grid: dict[str, list[Any]]
    paired: list[Params]
    sweep: dict[str, Any]
    per_env: dict[str, Params]
    env_vars: dict[str, str]
    notes: list[str] = field(default_factory=list)


def runner_section(path: str) -> dict[str, Any]:
    """The launcher's own flags that a file sets."""
    section = load_yaml(Path(path)).get("runner") or {}
    if not isinstance(section, dict):
        raise RunnerError("`runner:` must hold flags of the launcher, for example `max_parallel: 4`.")
    return section


def load_description(args: argparse.Namespace) -> tuple[RunDescription, list[str]]:
    """The description in `--config`, and what a user should know about how it was read."""
    content = load_yaml(Path(args.config))
    for assignment in args.set:
        _assign(content, assignment)
    plan = _make_plan(content, args)
    combinations = list(_combinations(plan, args))
    if len({repr(params) for params in combinations}) < len(combinations):
        raise RunnerError(
            f"{args.config} describes the same experiment twice; look for a value that is repeated."
        )
    if not combinations:
        raise RunnerError(f"{args.config} describes no experiment; look for an empty list.")
    named = {key for params in combinations for key in params}
    experiments = [
        Experiment(
            plan.name,
            plan.command,
            [_complete(plan, params, args) for params in combinations],
            plan.env_vars,
            named_params=named,
        )
    ]
    return RunDescription(plan.run_name, experiments), plan.notes


def _make_plan(content: Mapping[str, Any], args: argparse.Namespace) -> Plan:
    sections = {key: content[key] for key in _SECTIONS if content.get(key) is not None}
    flat = {key: value for key, value in content.items() if key not in _SECTIONS}
    run_name = args.run_name or str(sections.get("run_name", Path(args.config).stem))
    name = str(sections.get("name", run_name))
    command = str(sections.get("cmd", DEFAULT_COMMAND))
    plan = Plan(
        run_name=run_name,
        name=f"{args.prefix}_{name}" if args.prefix else name,
        command=command,
        params={**_mapping(sections, "params"), **flat, **_params_from_flags(command, args)},
        envs=_envs(sections, args),
        seeds=_seeds(sections.get("seeds"), args),
        grid=_axes(_mapping(sections, "grid"), args),
        paired=_paired(sections),
        sweep=_mapping(sections, "sweep"),
        per_env=_mapping(sections, "per_env"),
        env_vars=_mapping(sections, "env_vars"),
    )
    if plan.envs and "env" in plan.params:
        raise RunnerError("Both `env` and a list of environments are given; leave one of them out.")
    strangers = plan.per_env.keys() - {*plan.envs, *plan.grid.get("env", []), plan.params.get("env")}
    if strangers:
        raise RunnerError(f"`per_env: {min(strangers)}` is not among the environments of this run.")
    _settle_lists(plan, args)
    return plan


def _params_from_flags(command: str, args: argparse.Namespace) -> Params:
    """Settings that have a flag of the launcher; other programs than ours read wandb's variables."""
    params: Params = {"num_workers": args.num_workers}
    if is_trainer(command) and (args.wandb_project or args.wandb_entity):
        params |= {"with_wandb": True, "wandb_project": args.wandb_project, "wandb_user": args.wandb_entity}
    return {key: value for key, value in params.items() if value is not None}


def _envs(sections: Mapping[str, Any], args: argparse.Namespace) -> list[str]:
    if args.envs:
        return list(args.envs)
    if args.env_bundle:
        return bundle_envs(args.env_bundle)
    if "envs" in sections and "env_bundle" in sections:
        raise RunnerError("Both `envs` and `env_bundle` are given; leave one of them out.")
    if "envs" in sections:
        return [str(env) for env in _listed(sections["envs"], "envs")]
    return bundle_envs(str(sections["env_bundle"])) if "env_bundle" in sections else []


def _seeds(section: Any, args: argparse.Namespace) -> list[int]:
    if args.seeds:
        return list(args.seeds)
    if args.num_seeds is not None:
        return list(range(args.start_seed, args.start_seed + args.num_seeds))
    if isinstance(section, dict):
        start = int(section.get("start", 0))
        return list(range(start, start + int(section.get("num", 1))))
    return list(_listed(section, "seeds")) if section is not None else []


def _axes(grid: Mapping[str, Any], args: argparse.Namespace) -> dict[str, list[Any]]:
    axes = {key: list(_listed(values, f"grid: {key}")) for key, values in grid.items()}
    for text in args.axis:
        key, separator, values = text.partition("=")
        if not separator:
            raise RunnerError(f"--axis={text} has no values; write --axis=rollout=32,64.")
        axes[key] = [parse_yaml(value, f"--axis={text}") for value in values.split(",")]
    if args.num_demos:
        axes["num_demos"] = list(args.num_demos)
    return axes


def _paired(sections: Mapping[str, Any]) -> list[Params]:
    entries = list(_listed(sections.get("paired", []), "paired"))
    if any(not isinstance(entry, dict) for entry in entries):
        raise RunnerError(
            "`paired` must be a list of mappings, for example `- {use_rnn: true, recurrence: 32}`."
        )
    return entries


def _settle_lists(plan: Plan, args: argparse.Namespace) -> None:
    """Lists among the parameters are choices in a sweep and mistakes otherwise, unless a flag takes lists."""
    envs = [*plan.envs, *plan.grid.get("env", []), plan.params.get("env")]
    flags = _flags_for(plan, envs[0])
    if args.sweep is False:
        plan.sweep = {}
    for key, value in list(plan.params.items()):
        if isinstance(value, Literal) or not isinstance(value, list) or flags.is_list(key):
            continue
        if not args.sweep:
            raise RunnerError(
                f"{key!r} is a list; pass --sweep to choose from it, or write !literal before it."
            )
        plan.sweep[key] = plan.params.pop(key)


def _combinations(plan: Plan, args: argparse.Namespace) -> Iterator[Params]:
    """What distinguishes the experiments, checked."""
    axes: list[Sequence[Params]] = [
        _trials(plan, args),
        plan.paired or [{}],
        ParamGrid(list(plan.grid.items())).combinations(),
        [{"env": env} for env in plan.envs] or [{}],
        [{"seed": seed} for seed in plan.seeds] or [{}],
    ]
    for parts in itertools.product(*axes):
        merged: Params = {}
        for part in parts:
            merged |= part
        flags = _flags_for(plan, merged.get("env", plan.params.get("env")))
        yield {key: flags.check(key, value) for key, value in merged.items()}


def _trials(plan: Plan, args: argparse.Namespace) -> list[Params]:
    if not plan.sweep:
        return [{}]
    if args.sweep_mode == "grid":
        for key, values in plan.sweep.items():
            _listed(values, f"sweep: {key}")
        return ParamGrid(list(plan.sweep.items())).combinations()
    num_trials = args.num_trials if args.num_trials is not None else _DEFAULT_TRIALS
    sample = ParamSample(plan.sweep, num_trials, args.sweep_seed)
    trials = sample.combinations()
    if len(trials) < num_trials:
        plan.notes.append(f"the sweep has only {len(trials)} combinations; each runs once")
    return trials


def _complete(plan: Plan, named: Params, args: argparse.Namespace) -> Params:
    """All parameters of one experiment: those in its name, then the others."""
    env = named.get("env", plan.params.get("env"))
    flags = _flags_for(plan, env)
    others = {**plan.params, **plan.per_env.get(str(env), {})}
    if args.demo_dir:
        others["expert_path"] = f"{args.demo_dir}/{env}"
    others = {
        key: flags.check(key, value)
        for key, value in others.items()
        if key not in named and value is not None
    }
    if args.args_method == "full":
        others = {**flags.defaults(), **others}
        others = {key: value for key, value in others.items() if key not in named}
    elif args.args_method == "yaml":
        others = _in_file(plan, env, others, flags, args)
    else:
        others = {
            key: value for key, value in others.items() if not flags.is_default(key, value) or key == "env"
        }
    return {**named, **others}


def _in_file(plan: Plan, env: Any, params: Params, flags: TargetFlags, args: argparse.Namespace) -> Params:
    """Move parameters to a file that the command reads."""
    if not flags.has("cfg_file"):
        raise RunnerError("The trainer has no --cfg_file; use --args_method=minimal.")
    path = Path(args.train_dir) / plan.run_name / f"params_{env or 'all'}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_yaml(params), encoding="utf-8")
    return {"cfg_file": str(path)}


def _flags_for(plan: Plan, env: Any) -> TargetFlags:
    if env is None and is_trainer(plan.command):
        raise RunnerError("No environment is named; write `env_bundle: doom/basic` or `envs: [doom_basic]`.")
    return target_flags(plan.command, str(plan.params.get("algo", "APPO")), str(env))


def _assign(content: dict[str, Any], assignment: str) -> None:
    """Apply `--set key=value`, where dots lead into sections."""
    key, separator, text = assignment.partition("=")
    if not separator:
        raise RunnerError(f"--set={assignment} has no value; write --set gamma=0.99.")
    value = parse_yaml(text, f"--set={assignment}")
    section, dot, rest = key.partition(".")
    if section == "runner":
        raise RunnerError(f"--set={assignment} is a flag of its own; write --{rest}={text}.")
    if dot and section in _SECTIONS:
        content.setdefault(section, {})[rest] = value
    elif key in _SECTIONS:
        content[key] = value
    else:
        content.pop(key, None)
        content.setdefault("params", {})[key] = value


def _mapping(sections: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = sections.get(name, {})
    if not isinstance(value, dict):
        raise RunnerError(f"`{name}:` must hold `key: value` lines.")
    return dict(value)


def _listed(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise RunnerError(f"`{name}` must be a list, for example [1, 2].")
    return value
