"""Flags that the looking commands share, and what they mean."""

from __future__ import annotations

import argparse
from pathlib import Path

from sample_factory.experiments.files import find_experiments, select


def add_place(parser: argparse.ArgumentParser) -> None:
    """Where experiments are."""
    parser.add_argument(
        "--train_dir", "--dir", type=Path, default=Path("./train_dir"), help="where experiments are"
    )


def add_masks(parser: argparse.ArgumentParser) -> None:
    """Which experiments."""
    parser.add_argument(
        "masks", nargs="*", metavar="MASK", help="names, folders or globs below --train_dir; all if not given"
    )


def chosen(args: argparse.Namespace) -> dict[str, Path]:
    """The experiments that `add_place` and `add_masks` name.

    Raises:
        ExperimentsError: the directory does not exist, or a mask matches nothing.
    """
    return select(find_experiments(args.train_dir), args.masks)


def make_parser(verb: str, description: str) -> argparse.ArgumentParser:
    """A parser in the style of all commands."""
    return argparse.ArgumentParser(
        prog=f"sf {verb}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
