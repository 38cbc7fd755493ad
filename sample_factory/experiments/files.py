"""Where an experiment keeps what: the one place that knows the files of an experiment's directory.

`reading` and `lineage` read them through this module, and so does the dashboard. Looking at hundreds of
experiments must be quick, so that logs and metrics are read from their ends.

Invariant: nothing here writes, follows a symbolic link out of the directory it was given, or imports torch.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from sample_factory.benchmark.run_record import CONFIG_FILE, RUN_FILE
from sample_factory.config.experiment_files import CFG_FILE
from sample_factory.experiments.errors import NOTHING_FOUND, ExperimentsError

TAIL_BYTES = 64 * 1024
PICTURE_SUFFIXES = (".png", ".gif", ".jpg", ".jpeg")
VIDEO_SUFFIXES = (".mp4", ".webm")

_DEEPEST = 8
_MEDIA_DEPTH = 3
_BEST = re.compile(r"best_\d+_\d+_.+_(-?\d+\.\d+)\.pth")
_POLICY_DIR = re.compile(r"checkpoint_p(\d+)")


def find_experiments(train_dir: Path) -> dict[str, Path]:
    """The experiments below a directory, by their path relative to it, sorted.

    Symbolic links to directories are not followed, and experiments do not contain experiments.

    Raises:
        ExperimentsError: there is no such directory.
    """
    root = train_dir.expanduser()
    if not root.is_dir():
        raise ExperimentsError(f"{train_dir} does not exist; say where experiments are with --train_dir=DIR.")
    found: dict[str, Path] = {}
    pending = [(root, 0)]
    while pending:
        directory, depth = pending.pop()
        names, children = _listing(directory)
        if CFG_FILE in names or {RUN_FILE, CONFIG_FILE} <= names:
            found[_name(directory, root)] = directory
        elif depth < _DEEPEST:
            pending += [(child, depth + 1) for child in children]
    return dict(sorted(found.items()))


def select(found: dict[str, Path], masks: Sequence[str]) -> dict[str, Path]:
    """The experiments that match any mask: by name, by last part of the name, or by the folder they are in.

    Raises:
        ExperimentsError: a mask matches nothing.
    """
    if not masks:
        return found
    chosen: dict[str, Path] = {}
    for mask in masks:
        matching = {name: path for name, path in found.items() if _matches(name, mask.rstrip("/"))}
        if not matching:
            close = get_close_matches(mask, found, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else "a mask such as '*' shows them all."
            raise ExperimentsError(f"No experiment matches {mask}; {hint}", NOTHING_FOUND)
        chosen |= matching
    return {name: path for name, path in found.items() if name in chosen}


class Tail(NamedTuple):
    """The end of a text file, and whether that is all of it."""

    text: str
    is_whole: bool


def read_tail(path: Path, limit: int = TAIL_BYTES) -> Tail:
    """The last bytes of a file, from the beginning of a line on; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - limit)
            file.seek(start)
            content = file.read(limit)
    except OSError:
        return Tail("", True)
    if start:
        content = content.partition(b"\n")[2]
    return Tail(content.decode("utf-8", "replace"), start == 0)


def newest_records(tail: Tail) -> Iterator[dict[str, Any]]:
    """The JSON objects in the end of a file of lines, newest first; torn lines are left out."""
    for line in reversed(tail.text.splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def best_scores(directory: Path) -> dict[int, float]:
    """What each policy's best checkpoint scored, as the name of its file says."""
    found: dict[int, float] = {}
    for name in _listing(directory).children:
        policy = _POLICY_DIR.fullmatch(name.name)
        if policy is None:
            continue
        scores = [float(match[1]) for file in _listing(name).names if (match := _BEST.fullmatch(file))]
        if scores:
            found[int(policy[1])] = max(scores)
    return found


def checkpoint_files(directory: Path) -> list[Path]:
    """Every policy's checkpoints, oldest first."""
    return sorted(directory.glob("checkpoint_p*/*.pth"))


def media_files(directory: Path) -> list[Path]:
    """Videos and pictures of an experiment, newest first; links are left out, they may lead elsewhere."""
    found: list[tuple[float, Path]] = []
    pending = [(directory, 0)]
    while pending:
        folder, depth = pending.pop()
        listing = _listing(folder)
        for name in listing.names:
            path = folder / name
            if path.suffix.lower() in VIDEO_SUFFIXES + PICTURE_SUFFIXES and not path.is_symlink():
                found.append((path.stat().st_mtime, path))
        if depth < _MEDIA_DEPTH:
            pending += [(child, depth + 1) for child in listing.children]
    return [path for _, path in sorted(found, key=lambda entry: (-entry[0], str(entry[1])))]


def size_of(directory: Path) -> int:
    """Bytes of all files below a directory."""
    total = 0
    pending = [str(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue  # deleted while we looked, or not ours to read
    return total


class _Listing(NamedTuple):
    names: set[str]
    children: list[Path]


def _listing(directory: Path) -> _Listing:
    """Files and visible folders of a directory; empty when it can't be read."""
    names: set[str] = set()
    children: list[Path] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        children.append(Path(entry.path))
                else:
                    names.add(entry.name)
    except OSError:
        pass  # deleted while we looked, or not ours to read
    return _Listing(names, children)


def _name(directory: Path, root: Path) -> str:
    return directory.relative_to(root).as_posix() if directory != root else root.resolve().name


def _matches(name: str, mask: str) -> bool:
    last = name.rpartition("/")[2]
    return fnmatchcase(name, mask) or fnmatchcase(last, mask) or fnmatchcase(name, f"{mask}/*")
