"""The tuner's command line: its own flags, all flags of the runner, and any flag of the trainer.

`--config=tune.yaml` holds the same by name, with `params:` for the trainer, `search_space:` in place, and
`runner:` for the runner. Invariant: what is typed wins over the file, and everything is checked before the
first job starts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_factory.runner.description_files import DEFAULT_COMMAND
from sample_factory.runner.durations import parse_duration
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.flags import runner_argparser
from sample_factory.runner.target_flags import target_flags
from sample_factory.runner.yaml_loading import load_yaml, parse_yaml
from sample_factory.tune.objective import AGGREGATES, Objective, read_targets
from sample_factory.tune.sampling import PRUNERS, SAMPLERS, WILCOXON_RUNS
from sample_factory.tune.space import Params, SearchSpace, load_space

_INSIDE_A_SEED = ("median", "asha", "hyperband")
_DEFAULT_COMPARISONS = 10  # of trials with each other in the course of a training


@dataclass(frozen=True)
class TuneOptions:
    """A study, as the command line describes it.

    Attributes:
        runner: flags of the runner.
        command: what a job runs.
        algo: of the trainer.
        params: settings of all trials.
        defaults: settings of the trainer when nothing is typed.
        num_samples: trials that end with a value or are pruned, trial 0 among them.
        max_total_trials: trials altogether, failed ones included.
        timeout_sec: no trial starts after this long; 0 is any time.
        pruner_interval: frames between two comparisons of a trial with the others; 0 without such a pruner.
    """

    runner: argparse.Namespace
    study_name: str
    command: str
    algo: str
    params: Params
    defaults: Params
    space: SearchSpace
    objective: Objective
    eval_seeds: tuple[int, ...]
    num_samples: int
    max_total_trials: int
    top_k: int
    sampler: str
    sampler_seed: int
    pruner: str
    pruner_interval: int
    timeout_sec: int
    storage: Path
    analyze_only: bool

    @property
    def directory(self) -> Path:
        """Where everything of the study is."""
        return Path(self.runner.train_dir) / self.study_name


def tune_argparser() -> argparse.ArgumentParser:
    """The runner's flags and ours."""
    parser = runner_argparser()
    parser.prog = "python -m sample_factory.tune"
    parser.description = "Tune settings: every other flag is one of the trainer, the same for all trials."
    # Jobs are trained side by side here anyway; and a flag of the trainer must not pass as one of ours.
    parser.set_defaults(pause_between=0.0, wait=True)
    parser.allow_abbrev = False
    add_study_args(parser.add_argument_group("study"))
    add_search_args(parser.add_argument_group("search"))
    return parser


def add_study_args(parser: argparse._ActionsContainer) -> None:
    """What is tuned and how it is judged."""
    parser.add_argument("--cmd", default=DEFAULT_COMMAND, help="program to tune")
    parser.add_argument("--algo", default="APPO", help="algorithm")
    parser.add_argument("--env", help="environment; --envs for several")
    parser.add_argument("--search_space", help="appo, appo_model, throughput, or a .yaml or .py file")
    parser.add_argument("--train_for_env_steps", type=float, help="frames of one training")
    parser.add_argument("--repeat", type=int, default=3, help="seeds of a trial")
    parser.add_argument(
        "--num_eval_seeds", type=int, default=5, help="fresh seeds of the confirmation; 0: none"
    )
    parser.add_argument("--eval_seed_start", type=int, default=100, help="the first of them")
    parser.add_argument("--top_k", type=int, default=3, help="trials to confirm")
    parser.add_argument(
        "--metric", default="score", help="score, a tag of metrics.jsonl, or a dotted path in run.json"
    )
    parser.add_argument("--direction", choices=("maximize", "minimize"), default="maximize", help="of metric")
    parser.add_argument("--aggregate", choices=tuple(AGGREGATES), default="mean", help="of a trial's seeds")
    parser.add_argument("--target_scores", type=Path, help="scores that count as 0 and 1, for several --envs")
    parser.add_argument("--study_name", help="directory below --train_dir; tune_<algo>_<env> if not given")
    parser.add_argument("--storage", type=Path, help="Optuna's journal; <study>/study.journal if not given")
    parser.add_argument("--analyze_only", action="store_true", help="write the reports again and leave")


def add_search_args(parser: argparse._ActionsContainer) -> None:
    """How configurations are found."""
    parser.add_argument(
        "--num_samples", type=int, default=100, help="trials, the default configuration included"
    )
    parser.add_argument(
        "--max_total_trials", type=int, help="with failed ones; twice --num_samples if not given"
    )
    parser.add_argument("--timeout", default="0", help="no trial starts after this long, e.g. 8h")
    parser.add_argument("--sampler", choices=SAMPLERS, default="tpe", help="how configurations are chosen")
    parser.add_argument("--sampler_seed", type=int, default=0, help="of the choice")
    parser.add_argument("--pruner", choices=PRUNERS, default="none", help="when to give a trial up")
    parser.add_argument(
        "--pruner_interval", type=float, help="frames between two comparisons with other trials"
    )


def parse_command_line(argv: Sequence[str]) -> TuneOptions:
    """The study that a command line describes.

    Raises:
        RunnerError: when a flag or a value makes no sense.
    """
    parser = tune_argparser()
    args, rest = parser.parse_known_args(argv)
    inline: Any = None
    params: Params = {}
    if args.config is not None:
        params, inline = _apply_file(parser, Path(args.config))
        args, rest = parser.parse_known_args(argv)
    params |= _trainer_flags(rest) | _assignments(args.set)
    envs = list(args.envs or ([args.env] if args.env else [str(params.pop("env", "") or "")]))
    if not envs[0]:
        raise RunnerError("which environment? pass --env=doom_basic.")
    if args.train_for_env_steps is not None:
        params["train_for_env_steps"] = args.train_for_env_steps
    if args.num_workers is not None:
        params["num_workers"] = args.num_workers
    return _options(args, envs, params, inline)


def _options(args: argparse.Namespace, envs: list[str], params: Params, inline: Any) -> TuneOptions:
    flags = [target_flags(args.cmd, args.algo, env) for env in envs]
    source = inline if inline is not None and args.search_space is None else args.search_space
    if not source:
        raise RunnerError("which settings? pass --search_space=appo, or a .yaml file of your own.")
    space = load_space(source, flags[0])
    for target in flags:
        params = {name: target.check(name, value) for name, value in params.items()}
    twice = next((name for name in space.names if name in params), None)
    if twice is not None:
        raise RunnerError(f"--{twice} is in the search space and on the command line; leave one of them out.")
    if "seed" in params:
        raise RunnerError("--seed is given by the tuner; --repeat=3 is how many seeds a trial has.")
    name = args.study_name or f"tune_{args.algo}_{'_'.join(envs)}"
    directory = Path(args.train_dir) / name
    options = TuneOptions(
        runner=args,
        study_name=name,
        command=args.cmd,
        algo=args.algo,
        params=params,
        defaults={**flags[0].defaults(), **params},
        space=space,
        objective=_objective(args, envs),
        eval_seeds=tuple(range(args.eval_seed_start, args.eval_seed_start + args.num_eval_seeds)),
        num_samples=args.num_samples,
        max_total_trials=args.max_total_trials or 2 * args.num_samples,
        top_k=args.top_k,
        sampler=args.sampler,
        sampler_seed=args.sampler_seed,
        pruner=args.pruner,
        pruner_interval=_pruner_interval(args, params),
        timeout_sec=parse_duration(args.timeout),
        storage=args.storage or directory / "study.journal",
        analyze_only=args.analyze_only,
    )
    _check(args, options)
    return options


def _objective(args: argparse.Namespace, envs: list[str]) -> Objective:
    targets = read_targets(args.target_scores)
    missing = [env for env in envs if env not in targets]
    if len(envs) > 1 and missing:
        raise RunnerError(
            "several environments have no common scale; pass --target_scores=FILE with "
            f"{missing[0]}: [low, high]."
        )
    return Objective(
        envs=tuple(envs),
        seeds=tuple(range(args.repeat)),
        metric=args.metric,
        direction=args.direction,
        aggregate=args.aggregate,
        targets={env: targets[env] for env in envs if env in targets},
    )


def _pruner_interval(args: argparse.Namespace, params: Params) -> int:
    if args.pruner not in _INSIDE_A_SEED:
        return 0
    if "." in args.metric:
        raise RunnerError(f"--pruner={args.pruner} needs a learning curve; use --metric=score or a tag.")
    if args.pruner_interval is not None:
        return max(1, int(args.pruner_interval))
    steps = params.get("train_for_env_steps")
    if steps is None:
        raise RunnerError(f"--pruner={args.pruner} needs --train_for_env_steps or --pruner_interval=100000.")
    return max(1, int(steps) // _DEFAULT_COMPARISONS)


def _check(args: argparse.Namespace, options: TuneOptions) -> None:
    for name in ("repeat", "num_samples", "top_k", "max_parallel"):
        if getattr(args, name) < 1:
            raise RunnerError(f"--{name}={getattr(args, name)} must be at least 1.")
    if args.run is not None:
        raise RunnerError("--run belongs to the runner; the tuner takes --env and --search_space.")
    shared = set(options.objective.seeds) & set(options.eval_seeds)
    if shared:
        raise RunnerError(
            f"--eval_seed_start={args.eval_seed_start} repeats seeds of the search; "
            "use --eval_seed_start=100."
        )
    runs = len(options.objective.envs) * args.repeat
    if args.pruner == "wilcoxon" and runs <= WILCOXON_RUNS:
        raise RunnerError(
            f"--pruner=wilcoxon can't tell anything from fewer than {WILCOXON_RUNS} runs of a trial; "
            f"use --repeat={math.ceil((WILCOXON_RUNS + 1) / len(options.objective.envs))} or --pruner=median."
        )


def _apply_file(parser: argparse.ArgumentParser, path: Path) -> tuple[Params, Any]:
    """Takes defaults from a file; returns the trainer's settings and a search space, if they are in it."""
    content = load_yaml(path)
    params, space = content.pop("params", None) or {}, content.pop("search_space", None)
    flags = {**(content.pop("runner", None) or {}), **content}
    if isinstance(space, str):
        flags["search_space"], space = space, None
    known = {action.dest: action for action in parser._actions}
    unknown = [key for key in flags if key not in known]
    if unknown:
        raise RunnerError(f"{path}: {unknown[0]} is no flag of the tuner; put the trainer's into `params:`.")
    for key, value in flags.items():
        # As text they go through the flags' own types.
        typed = value if isinstance(value, bool | list) or known[key].type is None else str(value)
        parser.set_defaults(**{key: typed})
    return dict(params), space


def _trainer_flags(tokens: Sequence[str]) -> Params:
    """Flags that are not ours: `--gamma=0.99`, or `--gamma 0.99`, or a switch."""
    params: Params = {}
    words = list(tokens)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise RunnerError(f"{word} belongs to no flag; --help lists them.")
        name, given, value = word[2:].partition("=")
        values = [value] if given else []
        while not given and words and not words[0].startswith("--"):
            values.append(words.pop(0))
        params[name] = True if not values else values[0] if len(values) == 1 else values
    return params


def _assignments(assignments: Sequence[str]) -> Params:
    params: Params = {}
    for text in assignments:
        key, separator, value = text.partition("=")
        if not separator:
            raise RunnerError(f"--set={text} has no value; write --set gamma=0.99.")
        params[key] = parse_yaml(value, f"--set={text}")
    return params
