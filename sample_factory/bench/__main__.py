"""`python -m sample_factory.bench`, or `sf bench`: one word per kind of measurement."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {"speed": "sample_factory.bench.speed"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one measurement; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    known = ", ".join(COMMANDS)
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"usage: sf bench WHAT [--flag=value ...], where WHAT is one of: {known}\n")
        return 0
    what, *rest = arguments
    if what not in COMMANDS:
        sys.stderr.write(f"error: `sf bench {what}` does not exist; use one of: {known}\n")
        return 2
    return int(importlib.import_module(COMMANDS[what]).main(rest))


if __name__ == "__main__":
    sys.exit(main())
