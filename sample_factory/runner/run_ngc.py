"""v1's import names for running a description on NGC."""

from __future__ import annotations

import argparse

from sample_factory.runner.flags import add_ngc_args
from sample_factory.runner.launch import launch
from sample_factory.runner.run_description import RunDescription

__all__ = ["add_ngc_args", "run_ngc"]


def run_ngc(run_description: RunDescription, args: argparse.Namespace) -> int:
    """Submit a description to NGC; returns 0 when every job was accepted."""
    args.runner = "ngc"
    return int(launch(run_description, args))
