"""One screen about a session that failed: what broke first, what is safe, and how to go on."""

from __future__ import annotations

import shlex
from pathlib import Path

from sample_factory.config.config import Config

TRACE_LINES = 25


def post_mortem(cfg: Config, directory: Path, error: Exception, trace: str) -> str:
    """The text that ends a failed session; the root error stands in its last line."""
    lines = []
    if trace:
        kept = trace.rstrip().splitlines()[-TRACE_LINES:]
        lines += ["The error behind it:", *kept, ""]
    lines.append(f"Saved: {saved_checkpoints(directory)}")
    lines.append(f"Log: {directory / 'sf_log.txt'}")
    lines.append(f"Go on with: {resume_command(cfg)}")
    lines.append(f"The session has failed: {error}")
    return "\n".join(lines)


def saved_checkpoints(directory: Path) -> str:
    """The newest checkpoint of each policy."""
    newest = []
    for folder in sorted(directory.glob("checkpoint_p*")):
        names = sorted(path.name for path in folder.glob("checkpoint_*.pth"))
        if names:
            newest.append(f"{folder.name}/{names[-1]}")
    return ", ".join(newest) or "nothing yet"


def resume_command(cfg: Config) -> str:
    """The command line that continues this experiment."""
    flags = shlex.join(shlex.split(cfg.command_line)) if cfg.get("command_line") else f"--env={cfg.env}"
    return f"python -m sample_factory.algorithms.appo.train_appo {flags}"
