"""`python -m sample_factory.run_algorithm`: trains, or samples at full speed, as `--algo` says."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.parsing import parse_args


def run_algorithm(cfg: Config) -> int:
    """Runs the algorithm of a parsed configuration; returns the exit status.

    Problems that a user can mend end the program with one sentence each and exit code 2.
    """
    from sample_factory.algorithms.appo.engine import ComponentFailedError
    from sample_factory.algorithms.appo.session import ExitStatus, run_session
    from sample_factory.algorithms.dummy_sampler.sampler import run_dummy_sampler
    from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
    from sample_factory.processes.directory_lock import DirectoryInUseError

    try:
        return int(run_dummy_sampler(cfg) if cfg.algo == "DUMMY_SAMPLER" else run_session(cfg))
    except ConfigError as error:
        report_and_exit(error)
    except (MissingPackageError, UnknownEnvError, DirectoryInUseError) as error:
        report_and_exit(ConfigError(str(error)))
    except ComponentFailedError as error:
        log = logging.getLogger("sample_factory")
        if error.trace:
            log.error("%s", error.trace.rstrip())
        log.error("%s", error)
        return int(ExitStatus.FAILURE)


def main(argv: Sequence[str] | None = None) -> int:
    """Parses a command line and runs it."""
    return run_algorithm(parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
