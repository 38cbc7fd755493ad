"""Where the launcher keeps its files: all below `<train_dir>/<run name>/`, beside the experiments.

Logs and results are not in the experiments' own directories, because a job may move or delete its
directory (`--restart_behavior`) while it runs. Invariant: file names are made here and nowhere else.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

DONE_FILE = "done"  # in the directory of an experiment that has finished


@dataclass(frozen=True)
class RunFiles:
    """Paths of one run."""

    run_dir: Path

    @property
    def manifest(self) -> Path:
        """The record of all jobs."""
        return self.run_dir / "manifest.json"

    @property
    def commands(self) -> Path:
        """Every command on a line of its own, for people and for GNU parallel."""
        return self.run_dir / "commands.txt"

    @property
    def collected(self) -> Path:
        """What `--collect` found."""
        return self.run_dir / "results.csv"

    def log(self, job_id: str) -> Path:
        """What a job prints."""
        return self.run_dir / "logs" / f"{job_id}.log"

    def result(self, job_id: str, attempt: int) -> Path:
        """How an attempt ended, written by the job's own supervisor."""
        return self.run_dir / "results" / f"{job_id}.{attempt}.json"

    def script(self, job_id: str) -> Path:
        """The shell script that starts a job."""
        return self.run_dir / "spawn" / f"{job_id}.sh"

    def tmux_session(self, session: str) -> Path:
        """The session as tmuxp reads it."""
        return self.run_dir / "tmux" / f"{session}.yaml"

    def create(self) -> None:
        """Make the directories."""
        for name in ("logs", "results"):
            (self.run_dir / name).mkdir(parents=True, exist_ok=True)

    def clear_launch_files(self) -> None:
        """Remove what was only needed to start jobs; manifest, logs and results stay."""
        for name in ("spawn", "tmux"):
            shutil.rmtree(self.run_dir / name, ignore_errors=True)
        for script in (self.run_dir / "slurm").glob("sbatch_*.sh"):
            script.unlink(missing_ok=True)


def write_script(path: Path, text: str) -> Path:
    """Write a file that only its owner may read and run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o700)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)
    return path
