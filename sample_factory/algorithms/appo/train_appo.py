"""`python -m sample_factory.algorithms.appo.train_appo`: training."""

from __future__ import annotations

import sys

from sample_factory.run_algorithm import main

if __name__ == "__main__":
    sys.exit(main())
