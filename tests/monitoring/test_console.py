import io
import math
import subprocess
import sys

import pytest

from sample_factory.monitoring import log
from sample_factory.monitoring.console import (
    ProgressDisplay,
    SessionStatus,
    collected_line,
    duration_text,
    fps_line,
    remaining_sec,
    reward_line,
    wants_live_display,
)

STATUS = SessionStatus(
    env_steps=(4_000,),
    target_env_steps=10_000,
    fps=(120.04, 100.0, 80.0),
    samples=1_000,
    throughput=(30.01,),
    lag=(0.0, 1.25, 7.0),
    rewards=(1.2344,),
    elapsed_sec=40.0,
    verdict="environments",
)


def status(**changes):
    return SessionStatus(**({name: getattr(STATUS, name) for name in SessionStatus.__slots__} | changes))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_fps_line_has_the_shape_of_v1():
    assert fps_line(STATUS) == (
        "Fps is (10 sec: 120.0, 60 sec: 100.0, 300 sec: 80.0). Total num frames: 4000. Throughput: 0: 30.0. "
        "Samples: 1000. Policy #0 lag: (min: 0.0, avg: 1.2, max: 7.0)"
    )


def test_the_fps_line_lists_every_policy_and_sums_their_frames():
    line = fps_line(status(env_steps=(10, 20), throughput=(1.0, 2.5), rewards=(None, None)))
    assert "Total num frames: 30. Throughput: 0: 1.0, 1: 2.5." in line


def test_an_unknown_lag_is_shown_as_minus_one():
    assert fps_line(status(lag=None)).endswith("Policy #0 lag: (min: -1.0, avg: -1.0, max: -1.0)")


def test_an_unknown_speed_is_shown_as_nan():
    assert fps_line(status(fps=(math.nan,) * 3)).startswith(
        "Fps is (10 sec: nan, 60 sec: nan, 300 sec: nan)."
    )


def test_the_reward_line_has_the_shape_of_v1():
    assert reward_line(STATUS) == "Avg episode reward: [(0, '1.234')]"


def test_policies_without_an_episode_are_left_out_of_the_reward_line():
    assert reward_line(status(rewards=(None, 2.0))) == "Avg episode reward: [(1, '2.000')]"


def test_there_is_no_reward_line_before_the_first_episode():
    assert reward_line(status(rewards=(None,))) is None


def test_the_final_line_has_the_shape_of_v1():
    assert collected_line({0: 123, 1: 456}, 78.91) == "Collected {0: 123, 1: 456}, FPS: 78.9"


def test_the_remaining_time_follows_the_slowest_policy():
    # Two policies share 100 frames a second; the slower one misses 8000.
    assert remaining_sec(status(env_steps=(4_000, 2_000), fps=(1.0, 100.0, 1.0))) == 160.0


def test_the_remaining_time_is_unknown_without_speed():
    assert remaining_sec(status(fps=(math.nan, math.nan, math.nan))) is None


def test_durations_are_hours_minutes_seconds():
    assert [duration_text(sec) for sec in (0, 59.6, 3_723)] == ["0:00:00", "0:01:00", "1:02:03"]


def test_report_lines_come_every_five_seconds(clock, log_lines):
    display = ProgressDisplay("run", "plain", stream=io.StringIO(), clock=clock)
    for _ in range(11):
        clock.advance(1)
        display.update(STATUS)
    assert log_lines() == [("INFO", fps_line(STATUS)), ("INFO", reward_line(STATUS))] * 2


def test_plain_progress_and_pipes_get_no_live_display(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert wants_live_display("auto", Terminal())
    assert wants_live_display("rich", Terminal())
    assert not wants_live_display("plain", Terminal())
    assert not wants_live_display("off", Terminal())
    assert not wants_live_display("auto", io.StringIO())


def test_the_live_display_shows_steps_speed_rewards_lag_and_the_verdict(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    terminal = Terminal()
    with ProgressDisplay("my[bold]_run", "auto", stream=terminal, clock=clock) as display:
        display.update(STATUS)
    shown = terminal.getvalue()
    for text in (
        "my[bold]_run",
        "40.0%",
        "4,000 frames",
        "120 FPS",
        "0:01:00 left",
        "reward 1.234",
        "policy lag 0 / 1.2 / 7",
    ):
        assert text in shown
    assert "limited by: environments" in shown


def test_while_live_the_report_lines_go_to_the_file_only(clock, log_lines, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with ProgressDisplay("run", "auto", stream=Terminal(), clock=clock) as display:
        clock.advance(5)
        display.update(STATUS)
    assert log_lines() == [("DEBUG", fps_line(STATUS)), ("DEBUG", reward_line(STATUS))]


def test_with_progress_off_the_report_lines_go_to_the_file_only(clock, log_lines):
    display = ProgressDisplay("run", "off", stream=io.StringIO(), clock=clock)
    clock.advance(5)
    display.update(status(rewards=(None,)))
    assert log_lines() == [("DEBUG", fps_line(STATUS))]


@pytest.mark.usefixtures("logging_closed_afterwards")
def test_log_lines_are_printed_above_the_live_display_and_not_on_stderr(clock, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    log.init_logging(None, log_to_file=False)
    terminal = Terminal()
    with ProgressDisplay("run", "auto", stream=terminal, clock=clock) as display:
        display.update(STATUS)
        log.logger().warning("worker [3] restarted")
        terminal_text = terminal.getvalue()
    log.logger().warning("after")
    assert "worker [3] restarted" in terminal_text
    assert terminal_text.rindex("limited by") > terminal_text.index("worker [3] restarted")
    assert capsys.readouterr().err.count("worker [3]") == 0
    assert "after" not in terminal.getvalue()


def test_monitoring_imports_neither_torch_nor_rich():
    code = (
        "import sys, sample_factory.monitoring.console, sample_factory.monitoring.summaries\n"
        "print([name for name in ('torch', 'rich', 'tensorboardX', 'numpy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
