"""What a person watching a session sees: the two report lines of v1, or a live display on a terminal.

The session fills a `SessionStatus` and calls `ProgressDisplay.update` as often as it likes; the display keeps
its own pace. The report lines always reach `sf_log.txt`; on a terminal the live display replaces them there.

Invariant: while the display is live, log lines of this process go through it, so neither tears the other.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from sample_factory.monitoring.log import console_diverted, logger
from sample_factory.monitoring.statistics import seconds_until

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

REPORT_PERIOD_SEC = 5.0
_LIVE_PERIOD_SEC = 0.5


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """One moment of a session, as the display needs it.

    Attributes:
        env_steps: frames per policy, earlier sessions included.
        target_env_steps: `--train_for_env_steps`.
        fps: frames per second over 10, 60 and 300 s.
        samples: steps sampled by this session.
        throughput: steps sampled per second, per policy.
        lag: minimum, mean and maximum policy lag of policy 0; None before the first batch.
        rewards: mean episode reward per policy; None before its first episode.
        elapsed_sec: seconds this session has run.
        verdict: what limits the speed, in a few words; may be empty.
    """

    env_steps: Sequence[int]
    target_env_steps: int
    fps: tuple[float, float, float]
    samples: int
    throughput: Sequence[float]
    lag: tuple[float, float, float] | None
    rewards: Sequence[float | None]
    elapsed_sec: float
    verdict: str = ""


def fps_line(status: SessionStatus) -> str:
    """The speed report, in the shape scripts written for Sample Factory 1 parse."""
    windows = ", ".join(f"{sec} sec: {fps:.1f}" for sec, fps in zip((10, 60, 300), status.fps, strict=True))
    throughput = ", ".join(f"{policy}: {rate:.1f}" for policy, rate in enumerate(status.throughput))
    low, mean, high = status.lag or (-1.0, -1.0, -1.0)
    return (
        f"Fps is ({windows}). Total num frames: {sum(status.env_steps)}. Throughput: {throughput}. "
        f"Samples: {status.samples}. Policy #0 lag: (min: {low:.1f}, avg: {mean:.1f}, max: {high:.1f})"
    )


def reward_line(status: SessionStatus) -> str | None:
    """The reward report, or None while no policy has finished an episode."""
    known = [(policy, f"{reward:.3f}") for policy, reward in enumerate(status.rewards) if reward is not None]
    return f"Avg episode reward: {known}" if known else None


def collected_line(env_steps: Mapping[int, int], fps: float) -> str:
    """The last line of a session: frames per policy, and the mean speed of this session."""
    return f"Collected {dict(env_steps)}, FPS: {fps:.1f}"


def remaining_sec(status: SessionStatus) -> float | None:
    """Seconds until the slowest policy reaches its target at the present speed; None while unknown."""
    speed = next((fps for fps in status.fps[1:] + status.fps[:1] if math.isfinite(fps) and fps > 0), None)
    if speed is None:
        return None
    return seconds_until(status.target_env_steps, status.env_steps, speed)


def wants_live_display(progress: str, stream: TextIO) -> bool:
    """Whether to draw: if `--progress` is auto or rich, on a terminal that can move its cursor."""
    return progress in ("auto", "rich") and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class ProgressDisplay:
    """Report lines every five seconds, and on a terminal a display that is redrawn in place."""

    def __init__(
        self,
        title: str,
        progress: str = "auto",
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._clock = clock
        self._last_report = clock()
        self._last_drawing = -math.inf
        self._resources = ExitStack()
        stream = stream if stream is not None else sys.stderr
        self._live = self._start_live(stream) if wants_live_display(progress, stream) else None
        # Below the console's level only the file gets the lines: the screen shows them already, or shall not.
        self._report_level = logging.DEBUG if self.live or progress == "off" else logging.INFO

    @property
    def live(self) -> bool:
        """Whether the screen is being drawn on; then worker processes should log to the file only."""
        return self._live is not None

    def update(self, status: SessionStatus) -> None:
        """Shows the status if it is time to; cheap otherwise."""
        now = self._clock()
        if now - self._last_report >= REPORT_PERIOD_SEC:
            self._last_report = now
            self._report(status)
        if self._live is not None and now - self._last_drawing >= _LIVE_PERIOD_SEC:
            self._last_drawing = now
            self._live.update(render(self._title, status), refresh=True)

    def close(self) -> None:
        """Leaves the last drawing on the screen and gives the screen back."""
        self._resources.close()
        self._live = None

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _report(self, status: SessionStatus) -> None:
        if not math.isfinite(status.fps[0]):
            return  # nothing has been learned from yet
        logger().log(self._report_level, "%s", fps_line(status))
        rewards = reward_line(status)
        if rewards is not None:
            logger().log(self._report_level, "%s", rewards)

    def _start_live(self, stream: TextIO) -> Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream)
        # Redrawn by `update` alone: a refresh thread would draw in the middle of a shutdown.
        live = Live(console=console, auto_refresh=False, redirect_stdout=True, redirect_stderr=True)
        self._resources.enter_context(live)
        self._resources.enter_context(console_diverted(_line_printer(console)))
        return live


def _line_printer(console: Console) -> Callable[[str], None]:
    from rich.text import Text

    # Log lines carry their own colours and may contain square brackets, which rich would read as markup.
    return lambda line: console.print(Text.from_ansi(line), soft_wrap=True)


def render(title: str, status: SessionStatus) -> RenderableType:
    """The live display: a progress line, one line per policy, and what limits the speed."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    slowest = min(status.env_steps)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(title),  # not a plain string: rich would read square brackets in it as markup
        ProgressBar(total=max(1, status.target_env_steps), completed=slowest, width=30),
        f"{min(1.0, slowest / max(1, status.target_env_steps)):.1%}",
        f"{sum(status.env_steps):,} frames",
        f"{status.fps[0]:,.0f} FPS" if math.isfinite(status.fps[0]) else "starting",
        f"{duration_text(status.elapsed_sec)} elapsed",
        _eta_text(status),
    )
    policies = Table.grid(padding=(0, 2))
    for policy, (env_steps, reward) in enumerate(zip(status.env_steps, status.rewards, strict=True)):
        shown = "no episode yet" if reward is None else f"reward {reward:.3f}"
        policies.add_row(
            f"policy {policy}", f"{env_steps:,} frames", shown, _lag_text(status) if policy == 0 else ""
        )
    verdict = [Text(f"limited by: {status.verdict}")] if status.verdict else []
    return Group(head, policies, *verdict)


def duration_text(seconds: float) -> str:
    """Hours, minutes and seconds, as `1:02:03`."""
    minutes, sec = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{sec:02d}"


def _eta_text(status: SessionStatus) -> str:
    remaining = remaining_sec(status)
    return "" if remaining is None else f"{duration_text(remaining)} left"


def _lag_text(status: SessionStatus) -> str:
    if status.lag is None:
        return ""
    low, mean, high = status.lag
    return f"policy lag {low:.0f} / {mean:.1f} / {high:.0f}"
