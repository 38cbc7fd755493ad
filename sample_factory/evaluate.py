"""Entry point: `python -m sample_factory.evaluate` scores a trained policy without showing it.

The same flags as `enjoy_appo`, but headless, parallel and with files: see `evaluation.campaign`. Results go
to stdout as JSON or CSV, everything else to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from sample_factory.benchmark.run_record import strict_json
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.precedence import resolve
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.envs.spaces import UnsupportedSpaceError
from sample_factory.evaluation.campaign import evaluate
from sample_factory.evaluation.command_line import parse_evaluation
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.outputs import episodes_table
from sample_factory.model.checkpoints import CheckpointError
from sample_factory.monitoring.log import init_logging, logger

FAILURE = 1
INTERRUPTED = 130
USER_ERRORS = (EvaluationError, CheckpointError, UnknownEnvError, MissingPackageError, UnsupportedSpaceError)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    init_logging(None, log_to_file=False)
    try:
        cfg = resolve(parse_evaluation(argv), evaluation=True)
        evaluations = evaluate(cfg)
    except ConfigError as error:
        report_and_exit(error)
    except USER_ERRORS as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILURE
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; nothing was written.\n")
        return INTERRUPTED
    for evaluation in evaluations:
        logger().info("Results are in %s", evaluation.directory)
        if cfg.output_format == "csv":
            sys.stdout.write(episodes_table(evaluation.episodes))
        else:
            sys.stdout.write(json.dumps(strict_json(evaluation.summary())) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
