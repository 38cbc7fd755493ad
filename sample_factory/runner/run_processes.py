"""v1's import name for running a description as local processes."""

from __future__ import annotations

import argparse

from sample_factory.runner.launch import launch
from sample_factory.runner.run_description import RunDescription


def run(run_description: RunDescription, args: argparse.Namespace) -> int:
    """Run a description on this machine; returns 0 when every job completed."""
    args.runner = "processes"
    return int(launch(run_description, args))
