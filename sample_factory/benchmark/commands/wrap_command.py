"""`benchmark wrap script.py --env E --seed S ...`: runs a script's own `main(env=...)` and records it.

Also in the way of cherry's benchmark.py: `BENCH_SCRIPT=... BENCH_ENV=... BENCH_SEED=... benchmark wrap
--myarg=1`. Flags that are not ours, and everything after `--`, belong to the script.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.wrap.session import WrapOptions, wrap

_USAGE = "%(prog)s SCRIPT --env ENV [--seed SEED] [--bench_... ] [flags of the script] [-- more of them]"


def main(argv: Sequence[str]) -> int:
    """Parses the flags and runs the script; the exit code."""
    return wrap(parse_options(list(argv), os.environ))


def parse_options(argv: list[str], environment: Mapping[str, str]) -> WrapOptions:
    """What to run, from flags, then from BENCH_* variables.

    Raises:
        BenchmarkError: script or environment are not given.
    """
    border = argv.index("--") if "--" in argv else len(argv)
    args, rest = _parser(environment).parse_known_args(argv[:border])
    script = _take_script(argv, rest, environment)
    if not args.env:
        raise BenchmarkError("which environment? pass --env=CartPole-v1 or set BENCH_ENV.")
    return WrapOptions(
        script=script,
        env=args.env,
        seed=args.seed,
        out=args.bench_out,
        arguments=(*rest, *argv[border + 1 :]),
        test_episodes=args.bench_test_episodes,
        videos=args.bench_videos,
        timeout_sec=args.bench_timeout,
        wandb_project=args.bench_wandb,
        name=args.bench_name,
    )


def _take_script(argv: list[str], rest: list[str], environment: Mapping[str, str]) -> Path:
    """The script's path, taken out of what is left for the script itself."""
    if argv and not argv[0].startswith("-"):
        rest.remove(argv[0])
        return Path(argv[0])
    if environment.get("BENCH_SCRIPT"):
        return Path(environment["BENCH_SCRIPT"])
    named = next((word for word in rest if word.endswith(".py")), None)
    if named is None:
        raise BenchmarkError("which script? name it first, or set BENCH_SCRIPT=path/to/script.py.")
    rest.remove(named)
    return Path(named)


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sample_factory.benchmark wrap",
        usage=_USAGE,
        description="Run main(env=...) of a script, record it, test and film what it has learned.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,  # --e would otherwise be taken from the script
    )
    parser.add_argument(
        "--env", "--bench_env", default=environment.get("BENCH_ENV"), help="what main gets; BENCH_ENV"
    )
    parser.add_argument(
        "--seed",
        "--bench_seed",
        type=int,
        default=environment.get("BENCH_SEED", "42"),
        help="of random, numpy, torch and the script's SEED; BENCH_SEED",
    )
    parser.add_argument("--bench_name", help="name of the experiment in its record")
    parser.add_argument("--bench_out", type=Path, default=Path("train_dir/bench"), help="where records go")
    parser.add_argument(
        "--bench_test_episodes", type=int, default=25, help="episodes to test the result with"
    )
    parser.add_argument("--bench_videos", type=int, default=5, help="episodes to film afterwards")
    parser.add_argument(
        "--bench_timeout", type=float, default=0.0, help="seconds the script may take; 0 is any"
    )
    parser.add_argument(
        "--bench_wandb",
        nargs="?",
        const="sample_factory_benchmarks",
        metavar="PROJECT",
        help="mirror the run to Weights & Biases",
    )
    return parser
