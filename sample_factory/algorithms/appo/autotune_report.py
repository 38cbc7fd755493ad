"""What `--autotune` shows: the table it measured, and the command line that has the same effect without it.

Pure text, from the search's results and the configuration.
Invariant: the command holds everything that was typed, secrets aside, and nothing of `--autotune`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from sample_factory.algorithms.appo.autotune_search import TUNED, Candidate
from sample_factory.config.config import Config

FLAG = "--autotune"
VALUES = ("on", "only", "off")


def table(results: Mapping[Candidate, float | None], chosen: Candidate) -> str:
    """One line for each candidate in the order of measuring; the first is what was there before.

    A candidate that failed, or was not done in time, has a dash.
    """
    head = [*TUNED, "frames/s", ""]
    lines = [head]
    for candidate, fps in results.items():
        mark = "<- chosen" if candidate == chosen else ""
        values = [str(value) for value in candidate.settings().values()]
        lines.append([*values, "-" if fps is None else f"{fps:.0f}", mark])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def command_to_reuse(cfg: Config, tuned: Config, orig_argv: Sequence[str]) -> str:
    """The command line of this program with the chosen settings instead of `--autotune`.

    Args:
        cfg: as parsed; its `command_line` has no secrets.
        tuned: with what was chosen.
        orig_argv: how the interpreter was started (`sys.orig_argv`).
    """
    typed = cfg.get("cli_args") or {}
    chosen = [f"--{name}={tuned[name]}" for name in TUNED if name not in typed]
    flags = without_autotune(shlex.split(str(cfg.get("command_line") or "")))
    return shlex.join([*_program(orig_argv), *flags, *chosen])


def without_autotune(tokens: Sequence[str]) -> list[str]:
    """A command line's tokens without `--autotune`, however it was written."""
    kept: list[str] = []
    previous = ""
    for token in tokens:
        name = token.partition("=")[0]
        is_flag = len(name) > len("--a") and FLAG.startswith(name)
        if not is_flag and not (previous == "bare" and token in VALUES):
            kept.append(token)
        previous = "bare" if is_flag and "=" not in token else ""
    return kept


def _program(orig_argv: Sequence[str]) -> list[str]:
    """The words before the first flag: an interpreter with a module or script, or `sf train`."""
    words: list[str] = []
    for word in orig_argv:
        if word.startswith("--"):
            break
        words.append(word)
    return words
