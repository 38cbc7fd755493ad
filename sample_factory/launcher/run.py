"""Entry point: `python -m sample_factory.launcher.run`, the same program as `sample_factory.runner.run`."""

from __future__ import annotations

import sys

from sample_factory.runner.run import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
