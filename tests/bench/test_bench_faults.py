"""What `sf bench faults` makes of what it has seen."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from sample_factory.bench.__main__ import main as bench_main
from sample_factory.bench.chaos import Kill, KillPlan, LearnerLoss, RunRecording
from sample_factory.bench.fault_envs import FaultyEnvError, GameEnv
from sample_factory.bench.faults import RunSummary, check_kills
from sample_factory.bench.pole_game import FRAME, NEW_EPISODE, PoleGame
from sample_factory.bench.reliability_page import BEGIN, END, write_page
from sample_factory.bench.soak import TREE, SoakRecording, Usage, line_through
from sample_factory.bench.watched_run import Member, Reading


def reading(seconds: float, env_steps: int, version: int = 0) -> Reading:
    return Reading(seconds, env_steps, (env_steps,), version, cpu=seconds / 2, filling=0)


def test_throughput_between_kills_leaves_recoveries_the_warm_up_and_the_end_out():
    recording = RunRecording(kills=[Kill(10.0, "learner", "sf_learner_0", recovery_sec=4.0)])
    # 100 frames a second, but none from 10 to 14.
    recording.readings = [reading(t, 100 * t - 100 * min(max(t - 10, 0), 4)) for t in range(24)]
    assert recording.between_kills() == (1100, 11.0, 5.5)  # 5 to 10 and 14 to 20
    assert recording.overall() == (1100, 15.0)


def test_a_kill_that_was_never_recovered_from_has_no_quiet_time_after_it():
    recording = RunRecording(kills=[Kill(10.0, "learner", "sf_learner_0")])
    recording.readings = [reading(t, 100 * t) for t in range(21)]
    assert recording.between_kills()[:2] == (500, 5.0)


def test_what_a_learner_lost_is_how_far_its_successor_went_back():
    loss = LearnerLoss(version_at_death=90, env_steps_at_death=9000)
    for env_steps, version in ((9000, 90), (8200, 82), (8300, 83), (9500, 95)):
        loss.compare(reading(1.0, env_steps, version))
    assert (loss.versions_lost, loss.frames_lost) == (8, 800)


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("sf_rollout_12", "rollout worker"),
        ("sf_policy_0_1", "policy worker"),
        ("sf_learner_0", "learner"),
        ("sf_game", "game"),
        ("main", "main"),
    ],
)
def test_roles_are_read_off_titles(title: str, role: str):
    assert Member(1, title).role == role


def _checks(**changes: Any) -> dict[str, bool]:
    recording = RunRecording(
        kills=[Kill(1.0, "game", "sf_game", 0.5)], exit_code=0, main_descriptors=[30] * 8, num_agents=4
    )
    speed, score = changes.pop("speed", 95.0), changes.pop("score", 480.0)
    second_control = changes.pop("second_control", 100.0)
    for name, value in changes.items():
        setattr(recording, name, value)
    control = RunSummary("control", 10.0, 1000, 100.0, 100.0, 50.0, 490.0, 0)
    runs = {
        "control 1": control,
        "control 2": replace(control, fps=second_control),
        "kills": RunSummary("kills", 10.0, 1000, 80.0, speed, 50.0, score, recording.exit_code),
    }
    return {check.what: check.passed for check in check_kills(KillPlan(count=1), recording, runs)}


def test_a_run_without_fault_keeps_every_promise():
    assert all(_checks().values())


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"kills": []}, "kills in one run"),
        ({"kills": [Kill(1.0, "game", "sf_game")]}, "recovered from"),
        ({"exit_code": 1}, "the run completes"),
        ({"second_control": 89.0}, "the control runs agree within 10%"),
        ({"speed": 89.0}, "throughput between kills at least 90% of the control runs'"),
        ({"score": 460.0}, "score within noise of the control runs'"),
        ({"losses": [LearnerLoss(5, 500, versions_lost=1)]}, "no published update lost"),
        ({"losses": [LearnerLoss(5, 500, frames_lost=64)]}, "no published update lost"),
        ({"orphans": [77]}, "no orphan"),
        ({"shared_memory": ["torch_1"]}, "nothing left in /dev/shm"),
        ({"most_filling": 5}, "no slot of a dead worker left"),
        ({"main_descriptors": [30] * 6 + [31] * 2}, "descriptors of the main process"),
    ],
)
def test_each_promise_can_be_broken_alone(changes: dict[str, Any], broken: str):
    assert [what for what, passed in _checks(**changes).items() if not passed] == [broken]


def test_a_straight_line_has_its_slope_and_no_doubt():
    slope, interval = line_through(range(100), [5.0 + 2.0 * x for x in range(100)])
    assert slope == pytest.approx(2.0)
    assert interval == pytest.approx(0.0, abs=1e-9)


def test_growth_is_told_per_hour_and_after_the_warm_up():
    recording = SoakRecording(seconds=[float(t) for t in range(400)])
    for t in range(400):
        memory = 500.0 if t < 100 else 100.0 + t / 3600  # a big start, then one megabyte an hour
        usage = Usage(pss_mb=memory, descriptors=20, processes=1)
        recording.usages.append({"learner": usage, TREE: usage})
    learner, tree = recording.growth()
    assert (learner.role, tree.role) == ("learner", TREE)
    assert tree.slope_mb_per_hour == pytest.approx(1.0)
    assert (tree.descriptors_first, tree.descriptors_last) == (20, 20)


def test_readings_that_saw_the_run_end_do_not_count():
    recording = SoakRecording(seconds=[30.0 * t for t in range(8)])
    for processes in (23, 23, 22, 23, 23, 23, 9, 1):  # a worker was replaced; at the end all leave
        recording.usages.append({TREE: Usage(10.0 * processes, 2 * processes, processes)})
    recording.drop_the_end()
    assert [usage[TREE].processes for usage in recording.usages] == [23, 23, 22, 23, 23]
    assert recording.by_minute() == [(0, 230.0, 46), (1, 220.0, 44), (2, 230.0, 46)]


def _page_data() -> dict[str, Any]:
    return {
        "soak": {
            "minutes": 30.0,
            "frames": 1_234_567,
            "growth": [],
            "checks": [{"what": "no orphan", "seen": "0 processes left", "passed": True}],
            "command": "sf bench faults --soak_minutes=30",
            "date": "2030-01-02",
            "commit": "abc",
            "machine": "a machine",
        }
    }


def test_only_the_measured_part_of_a_page_is_replaced(tmp_path: Path):
    page = tmp_path / "reliability.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold figures\n{END}\n\n## After\n")
    write_page(page, _page_data())
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\n## After\n")
    assert "old figures" not in text
    assert "| no orphan | 0 processes left | yes |" in text
    assert "### Soak of 30 minutes, 1,234,567 frames" in text


def test_a_page_that_does_not_exist_is_made(tmp_path: Path):
    write_page(tmp_path / "page.md", _page_data())
    assert (tmp_path / "page.md").read_text().startswith(f"# Reliability\n\n{BEGIN}\n")


def test_an_unknown_measurement_names_the_known_ones(capsys: pytest.CaptureFixture[str]):
    assert bench_main(["fautls"]) == 2
    assert "faults" in capsys.readouterr().err


def test_the_pole_falls_when_it_is_only_pushed_one_way():
    game = PoleGame()
    game.play(NEW_EPISODE)
    frames = [FRAME.unpack(game.play(1)) for _ in range(12)]
    assert [frame[4] for frame in frames].index(True) in range(7, 11)
    assert not any(frame[5] for frame in frames)


def test_the_first_push_follows_the_equations_of_motion():
    game = PoleGame()
    *state, terminated, truncated = FRAME.unpack(game.play(1))  # from rest and upright
    # a = (F - m_p l a_θ) / M with a_θ = -(F/M) / (l (4/3 - m_p/M)): 9.7561 and -14.6341 for F = 10
    assert state == pytest.approx([0.0, 0.02 * 9.7561, 0.0, 0.02 * -14.6341], abs=1e-5)
    assert (terminated, truncated) == (0, 0)


@pytest.mark.processes
def test_a_game_whose_process_is_killed_is_an_exception_and_can_be_closed():
    env = GameEnv()
    env.reset(seed=1)
    os.kill(env._game.pid, signal.SIGKILL)
    env._game.wait(10.0)
    with pytest.raises((FaultyEnvError, BrokenPipeError)):
        env.step(1)
    env.close()


@pytest.mark.processes
def test_closing_a_game_ends_its_process():
    env = GameEnv()
    env.reset(seed=1)
    pid = env._game.pid
    env.close()
    assert not psutil.pid_exists(pid)
