"""Entry point: `python -m sample_factory.runner.run --run=module --runner=processes`.

Reads the command line and finds the description; `launch` runs it, `control` shows and cancels what runs
already. Invariant: the exit code says how it went (see `errors.ExitCode`), and errors of users are one
sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sample_factory.config.errors import ConfigError
from sample_factory.processes.directory_lock import DirectoryInUseError
from sample_factory.runner.bundles import listing
from sample_factory.runner.collecting import collect_run
from sample_factory.runner.control import cancel_run, show_status
from sample_factory.runner.errors import ExitCode, RunnerError
from sample_factory.runner.flags import parse_command_line, runner_argparser
from sample_factory.runner.launch import launch
from sample_factory.runner.loading import import_description
from sample_factory.runner.run_description import RunDescription
from sample_factory.runner.run_files import RunFiles

__all__ = ["main", "runner_argparser"]

_FOR_FILES_ONLY = (
    "env_bundle",
    "envs",
    "num_seeds",
    "seeds",
    "num_demos",
    "demo_dir",
    "num_trials",
    "num_workers",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the launcher; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(_dispatch(arguments))
    except (RunnerError, ConfigError, DirectoryInUseError) as error:
        sys.stderr.write(f"error: {error}\n")
        return int(getattr(error, "exit_code", ExitCode.USAGE))


def _dispatch(argv: Sequence[str]) -> ExitCode:
    args = parse_command_line(argv)
    if args.list_bundles:
        sys.stdout.write("".join(f"{line}\n" for line in listing()))
        return ExitCode.OK
    controls = args.status or args.cancel or args.collect
    if controls and args.run_name:
        return _control(args, args.run_name)
    description, notes = _description(args)
    if controls:
        return _control(args, description.run_name)
    return launch(description, args, argv, notes)


def _control(args: argparse.Namespace, run_name: str) -> ExitCode:
    files = RunFiles(Path(args.train_dir) / run_name)
    if args.collect:
        return collect_run(files, args, sys.stdout)
    return (cancel_run if args.cancel else show_status)(files, args, sys.stdout)


def _description(args: argparse.Namespace) -> tuple[RunDescription, list[str]]:
    if (args.run is None) == (args.config is None):
        raise RunnerError("Name one description: --run=myproject.my_run or --config=my_run.yaml.")
    if args.config is not None:
        from sample_factory.runner.description_files import load_description

        return load_description(args)
    misplaced = [name for name in _FOR_FILES_ONLY if getattr(args, name) is not None] + args.axis + args.set
    if misplaced:
        raise RunnerError(f"--{misplaced[0]} belongs to --config files; a --run module says it in Python.")
    description = import_description(args.run, args.debug)
    description.run_name = args.run_name or description.run_name
    return description, []


if __name__ == "__main__":
    sys.exit(main())
