"""Entry point: `python -m sample_factory.tune --env=ENV --search_space=appo`.

Reads the command line; `study_run` does the work. Invariant: the exit code says how it went, as with the
runner, and errors of users are one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.config.errors import ConfigError
from sample_factory.processes.directory_lock import DirectoryInUseError
from sample_factory.runner.errors import ExitCode, RunnerError
from sample_factory.tune.flags import parse_command_line
from sample_factory.tune.study_run import run_study


def main(argv: Sequence[str] | None = None) -> int:
    """Runs or continues a study; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(run_study(parse_command_line(arguments), arguments))
    except (RunnerError, BenchmarkError, ConfigError, DirectoryInUseError) as error:
        sys.stderr.write(f"error: {error}\n")
        return int(getattr(error, "exit_code", ExitCode.USAGE))


if __name__ == "__main__":
    sys.exit(main())
