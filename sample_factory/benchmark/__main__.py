"""`python -m sample_factory.benchmark`: run, summarise, compare, plot and report benchmarks."""

from __future__ import annotations

import sys

from sample_factory.benchmark.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
