"""Entry point: `python -m sample_factory.algorithms.appo.scripts.multi_agent_match`, also `sf match`.

Lets the policies of two experiments play against each other and tells who is better: a table on the screen
and in `eval_<a>vs<b>.txt`, and JSON with `--json`. Flags it does not know go to the environment and the
policies, as in `enjoy_appo`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sample_factory.algorithms.appo.enjoy_appo import USER_ERRORS
from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.experiment_files import CFG_FILE, read_cfg_file, write_json
from sample_factory.config.parsing import parse_args
from sample_factory.config.precedence import resolve
from sample_factory.evaluation.match import MatchResult, Record, play_matches
from sample_factory.monitoring.log import init_logging

FAILURE = 1
DUEL_MINUTES = 4.0  # of Doom's matches, unless --timelimit says otherwise


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    arguments, rest = _parser().parse_known_args(argv)
    init_logging(None, log_to_file=False)
    try:
        cfgs = _config(arguments, 0, rest), _config(arguments, 1, rest)
        names = _names(cfgs)
        sys.stdout.write(f"{'match':>5}  {names[0]:>20}  {names[1]:>20}  winner\n")
        count = 0

        def show(match: MatchResult) -> None:
            nonlocal count
            count += 1
            sys.stdout.write(_line(count, match, names))
            sys.stdout.flush()

        record = play_matches(cfgs, arguments.num_matches, arguments.seed, show)
    except ConfigError as error:
        report_and_exit(error)
    except USER_ERRORS as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILURE
    sys.stdout.write(summary(record, names))
    path = arguments.output or Path(f"eval_{names[0]}vs{names[1]}.txt")
    lines = [_line(number, match, names) for number, match in enumerate(record.matches, start=1)]
    path.write_text("".join(lines) + summary(record, names))
    if arguments.json is not None:
        write_json(arguments.json, as_json(record, names))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sf match", description=__doc__.splitlines()[2])
    parser.add_argument("rivals", nargs=2, metavar="EXPERIMENT", help="two experiments in --train_dir")
    parser.add_argument("--train_dir", default="train_dir", help="where the experiments are")
    parser.add_argument(
        "--policies", nargs=2, type=int, default=[0, 0], help="which policy of each experiment plays"
    )
    parser.add_argument("--num_matches", type=_at_least_one, default=100, help="matches to play")
    parser.add_argument("--seed", type=int, default=None, help="of the environment and of the actions")
    parser.add_argument("--env", default=None, help="another environment than that of the first experiment")
    parser.add_argument("--json", type=Path, default=None, help="also write the result to this file")
    parser.add_argument("--output", type=Path, default=None, help="instead of eval_<a>vs<b>.txt")
    return parser


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} matches tell nothing, use --num_matches=1 or more")
    return int(text)


def _config(arguments: argparse.Namespace, side: int, rest: Sequence[str]) -> Config:
    """The settings of one side, as it was trained and as the command line says."""
    name = arguments.rivals[side]
    env = (
        arguments.env
        or _saved_env(Path(arguments.train_dir) / name)
        or _saved_env(Path(arguments.train_dir) / arguments.rivals[0])
    )
    flags = ["--algo=APPO", f"--env={env or 'gym_CartPole-v1'}", f"--train_dir={arguments.train_dir}"]
    flags += [f"--experiment={name}", f"--policy_index={arguments.policies[side]}", *rest]
    if (env or "").startswith("doom_") and not any(flag.startswith("--timelimit") for flag in rest):
        flags.append(f"--timelimit={DUEL_MINUTES}")
    return resolve(parse_args(flags, evaluation=True), evaluation=True)


def _saved_env(directory: Path) -> str | None:
    path = directory / CFG_FILE
    return read_cfg_file(path).get("env") if path.exists() else None


def _names(cfgs: tuple[Config, Config]) -> tuple[str, str]:
    """The experiments, with the policy where one plays against itself."""
    first, second = (experiment_dir(cfg).name for cfg in cfgs)
    if first == second:
        return f"{first}_p{cfgs[0].policy_index}", f"{second}_p{cfgs[1].policy_index}"
    return first, second


def _line(number: int, match: MatchResult, names: tuple[str, str]) -> str:
    winner = "draw" if match.winner is None else names[match.winner]
    return f"{number:5d}  {match.scores[0]:20.3f}  {match.scores[1]:20.3f}  {winner}\n"


def summary(record: Record, names: tuple[str, str]) -> str:
    """What the matches say, in a few lines."""
    low, high = record.interval()
    means = record.mean_scores()
    return (
        f"\n{names[0]} against {names[1]}: {record.count(0)} won, {record.count(None)} drawn, "
        f"{record.count(1)} lost.\n"
        f"Mean score {means[0]:.3f} against {means[1]:.3f}.\n"
        f"{names[0]} gets {record.points:.1%} of the points (95 % interval {low:.1%} to {high:.1%}), "
        f"Elo difference {record.elo_difference():+.0f}.\n"
    )


def as_json(record: Record, names: tuple[str, str]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "rivals": list(names),
        "matches": len(record.matches),
        "won": record.count(0),
        "drawn": record.count(None),
        "lost": record.count(1),
        "points": record.points,
        "points_interval": list(record.interval()),
        "elo_difference": record.elo_difference(),
        "mean_scores": list(record.mean_scores()),
        "scores": [list(match.scores) for match in record.matches],
        "first_sides": [match.first_side for match in record.matches],
        "frames": sum(match.frames for match in record.matches),
    }


if __name__ == "__main__":
    sys.exit(main())
