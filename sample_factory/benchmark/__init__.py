"""Benchmarks: run records, statistics that are right, suites, reports, and scripts wrapped as they are.

`report(reward=..., step=...)` is for scripts that `benchmark wrap` runs; everything else is a command,
`python -m sample_factory.benchmark`.
"""

from sample_factory.benchmark.reporting import report

__all__ = ["report"]
