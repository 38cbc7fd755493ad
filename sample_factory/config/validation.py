"""Rules a configuration must keep, checked before any process starts.

`validate` finds all problems at once: first each value against its own setting, then rules across settings.
A rule names the settings it reads and is skipped when one of them is missing (another algorithm) or already
known to be wrong. Every sentence names the flag and a value that works.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sample_factory.config.config import Config, location_problems
from sample_factory.config.errors import ConfigError
from sample_factory.config.families import lookup_family
from sample_factory.config.precedence import with_recurrence
from sample_factory.config.setting import Setting
from sample_factory.config.settings_experiment import ALGORITHMS
from sample_factory.config.table import settings_for

_STANDARD_ENCODERS = ("conv", "resnet", "mlp")


@dataclass(frozen=True)
class _Rule:
    """A condition across settings."""

    reads: tuple[str, ...]
    problem: Callable[[Config], str | None]


def check(cfg: Config, num_agents: int = 1) -> None:
    """Raise `ConfigError` with every problem, if there are any."""
    problems = validate(cfg, num_agents)
    if problems:
        raise ConfigError(problems)


def validate(cfg: Config, num_agents: int = 1) -> list[str]:
    """Every reason why this configuration can't be run, as sentences; empty when it can.

    Args:
        cfg: the configuration, complete with what the experiment's cfg.json adds.
        num_agents: agents in each environment, when known.
    """
    found = {setting.name: setting.problem_with(cfg[setting.name]) for setting in _settings_of(cfg)}
    wrong = {name for name, problem in found.items() if problem}
    problems = location_problems(cfg) + [problem for problem in found.values() if problem]
    cfg = cfg if "recurrence" in wrong else with_recurrence(cfg)
    for rule in (*_RULES, _sync_rule(num_agents)):
        if all(name in cfg and name not in wrong for name in rule.reads):
            problem = rule.problem(cfg)
            if problem:
                problems.append(problem)
    return problems


def warnings(cfg: Config) -> list[str]:
    """What can be run but is probably not meant."""
    found = []
    if cfg.get("with_pbt") and cfg.num_policies == 1:
        found.append("--with_pbt=True changes nothing with --num_policies=1; use --num_policies=2 or more.")
    if cfg.get("normalize_input_keys") and not cfg.normalize_input:
        found.append("--normalize_input_keys changes nothing without --normalize_input=True.")
    return found


def _settings_of(cfg: Config) -> list[Setting]:
    """The settings that have a value in this configuration: the algorithm's and the family's."""
    algo = cfg.algo if cfg.algo in ALGORITHMS else "APPO"
    settings: Sequence[Setting] = settings_for(algo, evaluation=True)
    return [setting for setting in (*settings, *_family_settings(cfg.env)) if setting.name in cfg]


def _family_settings(env: str) -> Sequence[Setting]:
    try:
        return lookup_family(env)[0].settings
    except ConfigError:
        # A configuration made by hand, for an environment that was never registered: nothing more to check.
        return ()


def _recurrence(cfg: Config) -> str | None:
    rollout, recurrence = cfg.rollout, cfg.recurrence
    if cfg.with_vtrace and not (recurrence == rollout > 1):
        length = rollout if rollout > 1 else 32
        rollout_fix = "" if rollout > 1 else f"--rollout={length} "
        return (
            f"--with_vtrace=True needs --recurrence and --rollout to be equal and above 1, but they are "
            f"{recurrence} and {rollout}; use {rollout_fix}--recurrence={length}, or --with_vtrace=False."
        )
    if recurrence < 1 or rollout % recurrence:
        return f"--recurrence={recurrence} must divide --rollout={rollout}; use --recurrence={rollout}."
    return None


def _whole_trajectories(cfg: Config) -> str | None:
    size, minibatches = cfg.batch_size, cfg.num_batches_per_iteration
    fix = _near("batch_size", size, cfg.rollout)
    if size * minibatches % cfg.rollout:
        return (
            f"--batch_size={size} times --num_batches_per_iteration={minibatches} must be a multiple of "
            f"--rollout={cfg.rollout}; use {fix}."
        )
    if cfg.recurrence > 0 and size % cfg.recurrence:
        return f"--batch_size={size} must be a multiple of --recurrence={cfg.recurrence}; use {fix}."
    return None


def _splits(cfg: Config) -> str | None:
    envs, splits = cfg.num_envs_per_worker, cfg.worker_num_splits
    if envs % splits == 0:
        return None
    return (
        f"--num_envs_per_worker={envs} must be a multiple of --worker_num_splits={splits}; "
        f"use {_near('num_envs_per_worker', envs, splits)}, or --worker_num_splits=1."
    )


def _perturbation(cfg: Config) -> str | None:
    if cfg.pbt_perturb_min <= cfg.pbt_perturb_max:
        return None
    return (
        f"--pbt_perturb_min={cfg.pbt_perturb_min} must not exceed --pbt_perturb_max={cfg.pbt_perturb_max}; "
        f"use --pbt_perturb_max={cfg.pbt_perturb_min}."
    )


def _learning_rate_range(cfg: Config) -> str | None:
    if cfg.lr_adaptive_min <= cfg.lr_adaptive_max:
        return None
    return (
        f"--lr_adaptive_min={cfg.lr_adaptive_min} must not exceed --lr_adaptive_max={cfg.lr_adaptive_max}; "
        f"use --lr_adaptive_max={cfg.lr_adaptive_min}."
    )


def _encoder(cfg: Config) -> str | None:
    if cfg.encoder_custom or cfg.encoder_type in _STANDARD_ENCODERS:
        return None
    return f"--encoder_type={cfg.encoder_type} must be one of {', '.join(_STANDARD_ENCODERS)}."


def _autotune(cfg: Config) -> str | None:
    if cfg.autotune == "off" or not cfg.serial_mode:
        return None
    return f"--autotune={cfg.autotune} tunes processes, which --serial_mode=True has not; use --autotune=off."


def _compiler(cfg: Config) -> str | None:
    if not cfg.compile_model or os.environ.get("CXX") or any(map(shutil.which, ("g++", "clang++", "c++"))):
        return None
    return "--compile_model=True needs a C++ compiler: install g++, or use --compile_model=False."


def _policy_index(cfg: Config) -> str | None:
    if cfg.policy_index < cfg.num_policies:
        return None
    return (
        f"--policy_index={cfg.policy_index} does not exist among --num_policies={cfg.num_policies}; "
        f"use --policy_index={cfg.num_policies - 1} at most."
    )


def _league_needs_draws(cfg: Config) -> str | None:
    if cfg.async_rl or cfg.league_fraction == 0:
        return None
    return (
        f"--league_fraction={cfg.league_fraction} needs --async_rl=True: with --async_rl=False every agent "
        "belongs to one policy for good; use --league_fraction=0 or --async_rl=True."
    )


def _sync_rule(num_agents: int) -> _Rule:
    """Taking turns: what is collected in one go must fill batches exactly, or steps would be left over."""

    def problem(cfg: Config) -> str | None:
        if cfg.async_rl:
            return None
        envs = cfg.num_workers * cfg.num_envs_per_worker
        if envs % cfg.num_policies:
            fitting = _near("num_workers", cfg.num_workers, cfg.num_policies)
            return (
                f"--async_rl=False needs the {envs} environments of all workers to be a multiple of "
                f"--num_policies={cfg.num_policies}; use {fitting}."
            )
        collected = envs // cfg.num_policies * num_agents * cfg.rollout
        size, minibatches = cfg.batch_size, cfg.num_batches_per_iteration
        if size * minibatches % collected == 0:
            return None
        step = math.lcm(collected // math.gcd(collected, minibatches), cfg.rollout)
        return (
            f"--async_rl=False needs --batch_size={size} times --num_batches_per_iteration={minibatches} "
            f"to be a multiple of the {collected} steps a policy collects in one rollout; "
            f"use {_near('batch_size', size, step)}."
        )

    reads = ("async_rl", "num_workers", "num_envs_per_worker", "num_policies", "rollout", "batch_size")
    return _Rule((*reads, "num_batches_per_iteration"), problem)


def _near(name: str, value: int, step: int) -> str:
    """The multiples of `step` around a value, as flags."""
    below = value // step * step
    above = f"--{name}={below + step}"
    return f"--{name}={below} or {above}" if below else above


_RULES = (
    _Rule(("with_vtrace", "recurrence", "rollout"), _recurrence),
    _Rule(("batch_size", "num_batches_per_iteration", "rollout", "recurrence"), _whole_trajectories),
    _Rule(("num_envs_per_worker", "worker_num_splits"), _splits),
    _Rule(("pbt_perturb_min", "pbt_perturb_max"), _perturbation),
    _Rule(("lr_adaptive_min", "lr_adaptive_max"), _learning_rate_range),
    _Rule(("encoder_type", "encoder_custom"), _encoder),
    _Rule(("autotune", "serial_mode"), _autotune),
    _Rule(("policy_index", "num_policies"), _policy_index),
    _Rule(("league_fraction", "async_rl"), _league_needs_draws),
    _Rule(("compile_model",), _compiler),
)
