"""The command line: one module per command, chosen by the first word.

A module offers `add_arguments(parser)` and `execute(args) -> int`, or `main(argv)` if it parses by itself.
Only the module of the command in use is imported.

Invariant: data goes to stdout, everything else to stderr; a user's mistake is one line and an exit code.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.config.errors import ConfigError

COMMANDS = {
    "run": "run a suite: environments x configurations x seeds, then score every run",
    "wrap": "run a script's own main(env=...) and record it",
    "summary": "tables of many runs: CSV, markdown, HTML, LaTeX, JSON",
    "compare": "is one algorithm better than another? Can fail a CI job",
    "plot": "figures: curves, aggregates, profiles, improvement, efficiency, throughput",
    "report": "one self-contained HTML page",
    "verify": "does a report say what its raw scores and the runs on disk say?",
    "status": "what every run is doing",
    "export": "learning curves as CSV or JSON, or records to publish, or in sacred's layout",
}
_PARSE_THEMSELVES = ("run", "wrap")
_PROGRAM = "python -m sample_factory.benchmark"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help") or arguments[0] not in COMMANDS:
        return _usage(arguments)
    name, *rest = arguments
    module = importlib.import_module(f"sample_factory.benchmark.commands.{name}_command")
    try:
        return int(_dispatch(name, module, rest))
    except BenchmarkError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(ExitCode.USAGE)
    except BrokenPipeError:
        # `... | head` has read enough; flushing at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return int(ExitCode.INTERRUPTED)


def _dispatch(name: str, module: ModuleType, arguments: list[str]) -> int:
    if name in _PARSE_THEMSELVES:
        return int(module.main(arguments))
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} {name}",
        description=COMMANDS[name],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return int(module.execute(parser.parse_args(arguments)))


def _usage(arguments: Sequence[str]) -> int:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    usage = "\n".join(
        [f"usage: {_PROGRAM} COMMAND ...", "", *lines, "", "COMMAND --help shows its flags.", ""]
    )
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(usage)
        return int(ExitCode.OK)
    if arguments:
        sys.stderr.write(f"error: there is no command {arguments[0]}\n")
    sys.stderr.write(usage)
    return int(ExitCode.USAGE)
