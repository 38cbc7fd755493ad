"""`sf bench`: measures the system itself, one sub-command per module.

A sub-command is a module with `main(argv) -> exit status`; it is imported when it is used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "speed": ("sample_factory.bench.speed", "frames/s, CPU time and memory, from outside; scaling tables"),
    "faults": ("sample_factory.bench.faults", "kill components of a training run and watch what it costs"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(_usage())
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        sys.stderr.write(f"error: `sf bench {command}` does not exist; there is {', '.join(COMMANDS)}.\n")
        return 2
    sys.argv = [f"sf bench {command}", *rest]
    return int(importlib.import_module(COMMANDS[command][0]).main(rest) or 0)


def _usage() -> str:
    lines = "\n".join(f"  sf bench {name:<8} {text}" for name, (_, text) in COMMANDS.items())
    return (
        f"usage: sf bench COMMAND [--flag=value ...]\n\n{lines}\n\nsf bench COMMAND --help shows the flags.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
