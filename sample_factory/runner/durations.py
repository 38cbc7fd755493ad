"""Time limits: Slurm's notation, short forms such as `2h`, and names for usual lengths ("calibers").

A user's `--calibers=FILE` may change the lengths, add names, and say which Slurm partition each one goes to.
Invariant: everything is whole seconds once it has passed through here; 0 means no limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.yaml_loading import load_yaml

CALIBERS = {
    "debug": "0-00:10:00",
    "veryveryshort": "0-00:30:00",
    "veryshort": "0-03:00:00",
    "short": "0-06:00:00",
    "long": "0-12:00:00",
    "daylong": "1-00:00:00",
    "verylong": "2-00:00:00",
    "veryverylong": "4-00:00:00",
    "veryveryverylong": "7-00:00:00",
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WITH_UNITS = re.compile(r"(\d+[smhd])+")
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")


def parse_duration(text: str) -> int:
    """Seconds of `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`, `30m`, `2h`, `1d` or `1d12h`.

    Raises:
        RunnerError: for anything else.
    """
    text = text.strip().lower()
    if _WITH_UNITS.fullmatch(text):
        return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise RunnerError(f"{text!r} is not a duration; write for example --time=2h or --time=1-12:00:00.")
    numbers = [int(number) for number in match["clock"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    # Without days, one number is minutes and two are minutes and seconds: that is how Slurm reads them.
    hours, minutes, seconds = {1: [0, *numbers, 0], 2: [0, *numbers], 3: numbers}[len(numbers)]
    return hours * 3600 + minutes * 60 + seconds


@dataclass(frozen=True)
class Caliber:
    """A named time limit, and the partition for jobs of that length if clusters have one."""

    seconds: int
    partition: str | None = None


def find_caliber(name: str, path: str | None = None) -> Caliber:
    """The caliber of a name.

    Args:
        name: one of ours, or of the file.
        path: a YAML file with `name: 6h`, or `name: {time: 6h, partition: shared-gpu}`.

    Raises:
        RunnerError: when there is no such caliber, or the file makes no sense.
    """
    calibers = {own: Caliber(parse_duration(text)) for own, text in CALIBERS.items()}
    if path is not None:
        for key, entry in load_yaml(Path(path)).items():
            calibers[str(key)] = _caliber(str(key), entry, calibers.get(str(key)), path)
    if name not in calibers:
        raise RunnerError(f"--caliber={name} is unknown; use one of {', '.join(calibers)}.")
    return calibers[name]


def _caliber(name: str, entry: Any, known: Caliber | None, path: str) -> Caliber:
    if isinstance(entry, str | int):
        return Caliber(parse_duration(str(entry)), known.partition if known else None)
    if not isinstance(entry, Mapping) or not set(entry) <= {"time", "partition"}:
        raise RunnerError(f"--calibers={path}: write `{name}: {{time: 6h, partition: shared-gpu}}`.")
    if "time" not in entry and known is None:
        raise RunnerError(f"--calibers={path}: {name} needs a time, for example `{name}: 6h`.")
    seconds = parse_duration(str(entry["time"])) if "time" in entry else (known.seconds if known else 0)
    return Caliber(seconds, str(entry["partition"]) if entry.get("partition") else None)


def slurm_time(seconds: int) -> str:
    """A duration as `D-HH:MM:SS`."""
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{days}-{hours:02d}:{minutes:02d}:{rest:02d}"
