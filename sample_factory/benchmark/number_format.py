"""How numbers are written for people: scores, intervals, durations, counts."""

from __future__ import annotations

import math

from sample_factory.benchmark.statistics.bootstrap import Interval

NOT_AVAILABLE = "n/a"


def score(value: float | None) -> str:
    """Three decimals; large scores need fewer."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    return f"{value:.1f}" if abs(value) >= 10_000 else f"{value:.3f}"


def mean_and_std(mean: float, std: float) -> str:
    """`1.234 ± 0.567`."""
    return f"{score(mean)} ± {score(std)}"


def bounds(interval: Interval) -> str:
    """`(0.123, 0.456)`, or n/a for an interval that is not known."""
    return f"({score(interval.low)}, {score(interval.high)})" if interval.is_known else NOT_AVAILABLE


def count(value: float | None) -> str:
    """`1.5M`, `20.0k`, `999`."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}"


def hours(seconds: float | None) -> str:
    """Hours with two decimals."""
    return NOT_AVAILABLE if seconds is None else f"{seconds / 3600:.2f}"


def duration(seconds: float | None) -> str:
    """`2d 03h`, `3h 07m`, `12m 05s` or `9s`."""
    if seconds is None or not math.isfinite(seconds):
        return NOT_AVAILABLE
    whole = round(seconds)
    days, hour, minute, second = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{days}d {hour:02d}h"
    if hour:
        return f"{hour}h {minute:02d}m"
    return f"{minute}m {second:02d}s" if minute else f"{second}s"
