"""The program that is measured: the trainer, or the dummy sampler, with environments that count their steps.

`python -m sample_factory.bench.trainee COUNTERS --env=... --flag=value ...`; `watching` starts it. Apart from
the counters it is `sample_factory.run_algorithm`.
Invariant: it ends with the process that started it, however that ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sample_factory.config.parsing import parse_args
from sample_factory.processes.worker import die_with_parent
from sample_factory.run_algorithm import run_algorithm


def main(argv: Sequence[str]) -> int:
    """Registers the counting family and runs what the flags say."""
    from sample_factory.bench.counting import count_family

    die_with_parent()
    counters, *flags = argv
    count_family(parse_args(flags).env, Path(counters))
    return run_algorithm(parse_args(flags))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
