"""A directory to tune in, with a program that is trained in no time."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from sample_factory.tune.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
# The best values are x = 0.3 and y = 20; the seed adds a little noise.
TOY = """
    import argparse, json, random
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float, default=0.9)
    parser.add_argument("--y", type=int, default=5)
    parser.add_argument("--seed", type=int)
    args, _ = parser.parse_known_args()
    noise = random.Random(args.seed).uniform(-0.01, 0.01)
    print(json.dumps({"score": noise - (args.x - 0.3) ** 2 - ((args.y - 20) / 40) ** 2}))
"""
SPACE = """
    x: {type: float, low: 0.0, high: 1.0}
    y: {type: int, low: 0, high: 40}
"""


class Workplace:
    """Starts the tuner, here or as a process of its own."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.study = directory / "train_dir" / "toy"
        self.write("toy.py", TOY)
        self.write("space.yaml", SPACE)

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(textwrap.dedent(text))
        return path

    def command(self, *flags: str, program: str = "toy.py") -> list[str]:
        common = ["--study_name=toy", "--env=toy", "--search_space=space.yaml", "--max_parallel=4"]
        return [
            sys.executable,
            "-m",
            "sample_factory.tune",
            f"--cmd=python {self.directory / program}",
            *common,
            *flags,
        ]

    def start(self, *flags: str, program: str = "toy.py") -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*flags, program=program),
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *flags: str, program: str = "toy.py") -> int:
        """Runs the tuner in this process; its exit code."""
        return main(self.command(*flags, program=program)[3:])

    def trials(self) -> list[dict[str, str]]:
        with (self.study / "trials.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def report(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.study / "report.json").read_text())
        return content

    def jobs(self) -> list[dict[str, Any]]:
        path = self.study / "manifest.json"
        jobs: list[dict[str, Any]] = json.loads(path.read_text())["jobs"] if path.exists() else []
        return jobs
