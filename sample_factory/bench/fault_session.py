"""`python -m sample_factory.bench.fault_session`: training in environments that fail."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_factory.bench.fault_envs import register_fault_envs
from sample_factory.run_algorithm import main as run_algorithm_main


def main(argv: Sequence[str] | None = None) -> int:
    """Parses a command line and runs it."""
    register_fault_envs()
    return run_algorithm_main(argv)


if __name__ == "__main__":
    sys.exit(main())
