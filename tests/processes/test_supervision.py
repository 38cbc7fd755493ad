"""Worker processes with toy components: how they start, fail, hang, come back and end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sample_factory.processes import offspring, supervision
from sample_factory.processes.supervision import Death, Supervisor
from sample_factory.processes.worker import WorkerFailed, WorkerSpec, WorkerStarted
from tests.processes import children

pytestmark = pytest.mark.processes


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Watch:
    """A supervisor whose reports and deaths are collected until something has happened."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.supervisor = Supervisor(max_workers=4, clock=self.clock)
        self.reports: list[Any] = []
        self.deaths: list[Death] = []

    def start(self, build: Callable[..., Any], name: str = "worker", **options: Any) -> None:
        self.supervisor.start(WorkerSpec(name, build, **options))

    def until(self, happened: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline, (self.reports, self.deaths)
            self.reports += self.supervisor.reports(0.01)
            self.deaths += self.supervisor.check()

    def until_death(self) -> Death:
        self.until(lambda: self.deaths)
        return self.deaths.pop()


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    pids = made.supervisor.pids().values()
    made.supervisor.stop_all(0.5)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_worker_is_built_polled_and_closed_in_its_process(watch: Watch) -> None:
    watch.start(children.Toy)
    watch.until(lambda: ("polled", "worker", 0) in watch.reports)
    assert watch.supervisor.all_started()
    assert list(watch.supervisor.stop(["worker"], 30.0)) == [("closed", "worker", 0)]
    assert watch.reports == [("built", "worker", 0), WorkerStarted("worker"), ("polled", "worker", 0)]
    assert watch.deaths == []


def test_a_worker_that_rests_hears_a_stop_at_once(watch: Watch) -> None:
    watch.start(children.Resting)
    watch.until(lambda: "resting" in watch.reports)
    started = time.monotonic()
    assert list(watch.supervisor.stop(["worker"], 30.0)) == ["closed"]
    assert time.monotonic() - started < 0.5 * children.Resting.REST_SEC


def test_all_started_waits_for_every_worker(watch: Watch) -> None:
    watch.start(children.Toy, "quick")
    watch.start(children.StuckInBuild, "slow")
    watch.until(lambda: ("polled", "quick", 0) in watch.reports)
    assert not watch.supervisor.all_started()


def test_a_component_that_raises_while_it_is_built_has_not_started(watch: Watch) -> None:
    watch.start(children.FailsInBuild)
    death = watch.until_death()
    assert (death.name, death.started, death.deaths) == ("worker", False, 1)
    assert death.cause == "ValueError: no such game"
    assert "Traceback" in death.trace
    assert 'raise ValueError("no such game")' in death.trace


def test_a_component_that_raises_later_had_started(watch: Watch) -> None:
    watch.start(children.FailsInPoll)
    death = watch.until_death()
    assert (death.started, death.cause) == (True, "RuntimeError: the simulator broke")
    assert "in poll" in death.trace


def test_a_component_that_raises_when_told_to_close_reports_why(watch: Watch) -> None:
    watch.start(children.FailsInClose)
    watch.until(watch.supervisor.all_started)
    last = list(watch.supervisor.stop(["worker"], 30.0))
    assert [report.error for report in last if isinstance(report, WorkerFailed)] == [
        "RuntimeError: the disk is full"
    ]


def test_a_worker_killed_from_outside_is_a_death_that_names_the_signal(watch: Watch) -> None:
    watch.start(children.Toy)
    watch.until(watch.supervisor.all_started)
    os.kill(watch.supervisor.pids()["worker"], signal.SIGKILL)
    death = watch.until_death()
    assert death.started
    assert death.cause == "worker was killed by SIGKILL; perhaps the machine ran out of memory"


def test_a_worker_that_exits_by_itself_is_a_death_that_tells_the_code(watch: Watch) -> None:
    watch.start(children.ExitsInPoll)
    assert watch.until_death().cause == "worker exited with code 3"


def test_a_stuck_worker_is_killed_and_its_stack_names_the_function(watch: Watch) -> None:
    watch.start(children.StuckInPoll, silence_limit_sec=0.3)
    death = watch.until_death()
    assert death.started
    assert death.cause == "worker was stuck and has been killed"
    assert "wait_for_a_simulator_that_hangs" in death.trace


def test_a_worker_that_crashes_in_a_library_leaves_its_stack(watch: Watch) -> None:
    watch.start(children.CrashesInPoll)
    death = watch.until_death()
    assert death.cause == "worker was killed by SIGSEGV"
    assert "in follow_a_null_pointer" in death.trace


def test_what_a_worker_said_last_is_heard_though_it_is_dead(watch: Watch) -> None:
    watch.start(children.SpeaksAndDies)
    deadline = time.monotonic() + 60
    while not (deaths := watch.supervisor.check()):  # nobody reads its reports while it lives
        assert time.monotonic() < deadline
    assert [(death.started, death.cause.partition(";")[0]) for death in deaths] == [
        (True, "worker was killed by SIGKILL")
    ]
    assert list(watch.supervisor.reports()) == [
        ("built", "worker", 0),
        WorkerStarted("worker"),
        "last words",
    ]
    assert list(watch.supervisor.reports()) == []


def test_a_pause_of_the_supervisor_itself_is_not_held_against_its_workers(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a suspended machine: everybody's last sign of life is long ago."""
    watch.start(children.StuckInPoll, silence_limit_sec=60)
    watch.until(watch.supervisor.all_started)
    now = time.monotonic
    monkeypatch.setattr(supervision.time, "monotonic", lambda: now() + 1000)
    assert watch.supervisor.check() == []
    monkeypatch.setattr(supervision.time, "monotonic", lambda: now() + 1004)
    assert watch.supervisor.check() == []
    assert "worker" in watch.supervisor.pids()


def test_workers_come_back_though_the_fork_server_was_killed(watch: Watch) -> None:
    watch.start(children.Toy)
    watch.until(watch.supervisor.all_started)
    os.kill(psutil.Process(watch.supervisor.pids()["worker"]).ppid(), signal.SIGKILL)
    watch.until_death()
    watch.clock.now += watch.supervisor.restart("worker")
    watch.until(lambda: ("polled", "worker", 1) in watch.reports)


def test_the_title_of_a_process_tells_what_it_is(watch: Watch) -> None:
    watch.start(children.Toy, "rollout_worker_12")
    watch.until(watch.supervisor.all_started)
    (pid,) = watch.supervisor.pids().values()
    assert Path(f"/proc/{pid}/comm").read_text() == "sf_rollout_12\n"


def test_a_worker_killed_because_it_would_not_stop_is_reported(watch: Watch) -> None:
    watch.start(children.StuckInPoll)
    watch.until(lambda: ("polled", "worker", 0) in watch.reports)
    reports = list(watch.supervisor.stop(["worker"], 0.5))
    assert WorkerFailed("worker", "worker did not stop within 0 s and is killed", "") in reports


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_game_does_not_outlive_its_worker(watch: Watch, end: str) -> None:
    watch.start(children.StartsAGame)
    watch.until(watch.supervisor.all_started)
    (game,) = [report[1] for report in watch.reports if isinstance(report, tuple) and report[0] == "game"]
    watch.until(lambda: watch.supervisor._workers["worker"].offspring)
    assert is_running(game)
    if end == "killed":
        os.kill(watch.supervisor.pids()["worker"], signal.SIGKILL)
        watch.until_death()
    else:
        watch.supervisor.stop_all(30.0)
    watch.until(lambda: not is_running(game))


def test_another_process_that_was_given_the_number_of_a_dead_one_is_left_alone() -> None:
    (me,) = [process for process in offspring.descendants(os.getppid()) if process.pid == os.getpid()]
    stranger = offspring.Descendant(me.pid, me.started - 1)
    assert offspring.end_survivors(frozenset({stranger})) == []


def test_a_worker_stuck_while_it_is_built_has_a_limit_of_its_own(watch: Watch) -> None:
    watch.start(children.StuckInBuild, start_limit_sec=0.5, silence_limit_sec=1000)
    death = watch.until_death()
    assert not death.started
    assert "load_a_map_for_ever" in death.trace


def test_a_slow_worker_that_gives_signs_of_life_is_left_alone(watch: Watch) -> None:
    watch.start(children.SlowButAlive, silence_limit_sec=0.5)
    watch.until(lambda: ("polled", "worker", 0) in watch.reports)
    assert watch.deaths == []


def test_the_stack_of_a_running_worker_can_be_asked_for_more_than_once(watch: Watch) -> None:
    watch.start(children.StuckInPoll)
    watch.until(watch.supervisor.all_started)
    watch.until(lambda: "wait_for_a_simulator_that_hangs" in watch.supervisor.stack_of("worker"))
    assert watch.supervisor.stack_of("worker").count("wait_for_a_simulator_that_hangs") == 1


def test_a_dead_worker_comes_back_after_a_back_off_that_doubles_up_to_half_a_minute(watch: Watch) -> None:
    watch.start(children.ExitsInPoll)
    delays = []
    for life in range(8):
        death = watch.until_death()
        assert death.deaths == life + 1
        delay = watch.supervisor.restart("worker", failures_in_a_row=life + 1)
        delays.append(delay)
        watch.clock.now += delay - 0.01
        assert watch.supervisor.check() == []
        assert watch.supervisor.pids() == {}
        watch.clock.now += 0.01
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_restarted_worker_counts_as_not_started_until_it_is_built_again(watch: Watch) -> None:
    watch.start(children.Toy)
    watch.until(watch.supervisor.all_started)
    os.kill(watch.supervisor.pids()["worker"], signal.SIGKILL)
    watch.until_death()
    watch.clock.now += watch.supervisor.restart("worker")
    watch.supervisor.check()
    assert not watch.supervisor.all_started()
    watch.until(watch.supervisor.all_started)
    assert ("built", "worker", 1) in watch.reports


def test_a_worker_that_ignores_the_request_to_stop_is_killed(watch: Watch) -> None:
    watch.start(children.StuckInPoll, "stuck")
    watch.start(children.Toy, "willing")
    watch.until(lambda: {("polled", "stuck", 0), ("polled", "willing", 0)} <= set(watch.reports))
    pids = watch.supervisor.pids()
    last = list(watch.supervisor.stop(["stuck", "willing"], 0.5))
    assert last.count(("closed", "willing", 0)) == 1
    assert ("closed", "stuck", 0) not in last
    assert not any(is_running(pid) for pid in pids.values())


def test_stop_all_ends_everything_and_may_be_called_again(watch: Watch) -> None:
    watch.start(children.Toy, "first")
    watch.start(children.Toy, "second")
    watch.until(watch.supervisor.all_started)
    pids = watch.supervisor.pids()
    watch.supervisor.stop_all(30.0)
    watch.supervisor.stop_all(30.0)
    assert not any(is_running(pid) for pid in pids.values())
    assert watch.supervisor.pids() == {}


def test_a_worker_waiting_for_its_restart_is_not_started_by_a_stop(watch: Watch) -> None:
    watch.start(children.ExitsInPoll)
    watch.until_death()
    watch.clock.now += watch.supervisor.restart("worker")
    watch.supervisor.stop_all(1.0)
    assert watch.supervisor.check() == []
    assert watch.supervisor.pids() == {}


def test_a_report_larger_than_a_pipe_arrives_though_nothing_is_sent_after_it(watch: Watch) -> None:
    watch.start(children.ReportsMuch)
    watch.until(lambda: b"x" * 1_000_000 in watch.reports)


def test_a_worker_gets_its_cores_niceness_and_environment_variables(watch: Watch) -> None:
    core = min(os.sched_getaffinity(0))
    nice = min(os.nice(0) + 3, 19)
    watch.start(children.ReportsSurroundings, cores=[core], niceness=3, environment={"TOY_SETTING": "on"})
    watch.until(lambda: ("on", [core], nice) in watch.reports)


def test_there_is_no_room_for_more_workers_than_announced(watch: Watch) -> None:
    watch.supervisor.max_workers = 0
    with pytest.raises(ValueError, match="more workers"):
        watch.start(children.Toy)
