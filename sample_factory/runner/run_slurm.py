"""v1's import names for running a description on Slurm."""

from __future__ import annotations

import argparse

from sample_factory.runner.flags import add_slurm_args
from sample_factory.runner.launch import launch
from sample_factory.runner.run_description import RunDescription

__all__ = ["add_slurm_args", "run_slurm"]


def run_slurm(run_description: RunDescription, args: argparse.Namespace) -> int:
    """Submit a description to Slurm; returns 0 when every job was accepted."""
    args.runner = "slurm"
    return int(launch(run_description, args))
