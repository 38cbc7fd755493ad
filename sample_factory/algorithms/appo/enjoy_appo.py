"""Entry point: `python -m sample_factory.algorithms.appo.enjoy_appo` shows a trained policy.

Parses, calls `evaluation.show.enjoy`, and turns what a user can put right into one sentence. Scripts written
for v1 import `enjoy` from here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.envs.spaces import UnsupportedSpaceError
from sample_factory.evaluation.command_line import parse_evaluation
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.show import enjoy
from sample_factory.model.checkpoints import CheckpointError
from sample_factory.monitoring.log import init_logging

__all__ = ["enjoy", "main", "play"]

FAILURE = 1

USER_ERRORS = (EvaluationError, CheckpointError, UnknownEnvError, MissingPackageError, UnsupportedSpaceError)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    try:
        cfg = parse_evaluation(argv)
    except ConfigError as error:
        report_and_exit(error)
    except EvaluationError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILURE
    return play(cfg)


def play(cfg: Config) -> int:
    """What the program does with a parsed command line; for scripts with environments of their own."""
    init_logging(None, log_to_file=False)
    try:
        status, _ = enjoy(cfg)
    except ConfigError as error:
        report_and_exit(error)
    except USER_ERRORS as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILURE
    return status


if __name__ == "__main__":
    sys.exit(main())
