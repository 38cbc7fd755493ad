"""From a command line that names a policy to the settings of its experiment.

The evaluation's entry points begin here: enjoy, evaluate, export, publish. `--model_path` and
`--wandb_run_path` are translated to `--train_dir` and `--experiment`, and `--env` is read from cfg.json when
it was not typed; then the ordinary parser takes over.

Invariant: what was typed wins over what the experiment saved.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sample_factory.config.config import Config
from sample_factory.config.experiment_files import CFG_FILE, cfg_path, read_cfg_file
from sample_factory.config.parsing import parse_args
from sample_factory.config.precedence import resolve
from sample_factory.config.setting import parse_bool
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.source import Location, locate
from sample_factory.evaluation.wandb_source import PREFIX, RunPath, download


def parse_evaluation(argv: Sequence[str] | None = None) -> Config:
    """The parsed settings of an evaluation, not yet completed by cfg.json.

    Raises:
        EvaluationError: there is no policy where the flags say.
    """
    return parse_args(with_source(sys.argv[1:] if argv is None else argv), evaluation=True)


def load_evaluation_cfg(argv: Sequence[str] | None = None) -> Config:
    """The same, completed by the experiment's cfg.json. Raises like `parse_evaluation`."""
    return resolve(parse_evaluation(argv), evaluation=True)


def experiment_cfg(directory: Path, *flags: str) -> Config:
    """The settings of the experiment in a directory, with these flags typed."""
    place = [f"--train_dir={directory.parent}", f"--experiment={directory.name}"]
    return load_evaluation_cfg([*place, *flags])


def policy_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """The flags of a program that takes one policy; `policy_location` says where it is."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--experiment", help="name of the experiment")
    parser.add_argument("--train_dir", default="./train_dir", help="where experiments are")
    parser.add_argument("--model_path", help="instead of --experiment: a directory, checkpoint or name")
    parser.add_argument("--iter_num", default="latest", help="which checkpoint: latest, best, an SGD step")
    parser.add_argument("--policy_index", type=int, default=0, help="which policy of the experiment")
    return parser


def policy_location(args: argparse.Namespace) -> Location:
    """The policy that the flags of `policy_parser` name.

    Raises:
        EvaluationError: there is none.
    """
    if not (args.experiment or args.model_path):
        raise EvaluationError("--experiment is missing: name one, for example --experiment=cartpole.")
    return locate(args.model_path or Path(args.train_dir) / args.experiment)


def with_source(argv: Sequence[str]) -> list[str]:
    """The command line with everything the parser needs to know about the policy's experiment."""
    args = _source_flags().parse_known_args(argv)[0]
    file = _downloaded(args)
    path = file or args.model_path
    found = locate(path).directory if path else None
    complete = list(argv) + ([f"--model_path={file}"] if file else [])
    if found is not None:
        complete += [f"--train_dir={found.parent}", f"--experiment={found.name}"]
        complete += ["--experiments_root="] if args.experiments_root else []
    if args.env is None and not args.help:
        saved = found / CFG_FILE if found is not None else cfg_path(_place(args))
        if saved.exists():
            complete.insert(0, f"--env={read_cfg_file(saved).get('env')}")
    return complete


def _source_flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("env", "experiments_root", "model_path", "wandb_run_path", "iter_num"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--experiment", default="default_experiment")
    parser.add_argument("--train_dir", default=str(Path.cwd() / "train_dir"))
    parser.add_argument("--load_checkpoint_kind", default="latest")
    parser.add_argument("--wandb_download_replace", type=parse_bool, default=False)
    parser.add_argument("-h", "--help", action="store_true")
    return parser


def _downloaded(args: argparse.Namespace) -> Path | None:
    text = args.wandb_run_path
    if not text and (args.model_path or "").startswith(PREFIX):
        text = args.model_path
    if not text:
        return None
    return download(
        RunPath.parse(text),
        Path(args.train_dir).expanduser(),
        choice=args.iter_num or args.load_checkpoint_kind,
        replace=args.wandb_download_replace,
    )


def _place(args: argparse.Namespace) -> Config:
    return Config(
        train_dir=args.train_dir, experiments_root=args.experiments_root, experiment=args.experiment
    )
