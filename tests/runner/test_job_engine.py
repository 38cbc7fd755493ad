"""The engine with a back end and a clock that tests control."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_factory.runner.backends.base import RUNNING, Backend, Observation, Phase, Started, Watched
from sample_factory.runner.commands import Launch
from sample_factory.runner.engine import Clock, Engine, Limits, exit_code_of
from sample_factory.runner.errors import ExitCode
from sample_factory.runner.jobs import Job
from sample_factory.runner.manifest import Attempt, JobRecord, Manifest, State
from sample_factory.runner.placement import Placement


class FakeClock(Clock):
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class ScriptedBackend(Backend):
    """Each attempt ends, after some looks, with the next exit code of its job's script; then with 0."""

    name = "scripted"
    is_local = True

    def __init__(self, exit_codes: dict[str, list[int | None]], looks: int = 2):
        self.exit_codes = {job: list(codes) for job, codes in exit_codes.items()}
        self.looks = looks
        self.running: Counter[str] = Counter()
        self.starts: list[tuple[str, float]] = []
        self.most_running = 0
        self.stopped: list[tuple[str, bool]] = []
        self.clock: Clock = FakeClock()

    def start(self, launches: Sequence[Launch]) -> list[Started]:
        for launch in launches:
            assert self.running[launch.job.id] == 0, "a job has two attempts at a time"
            self.running[launch.job.id] = self.looks
            self.starts.append((launch.job.id, self.clock.now()))
        self.most_running = max(self.most_running, sum(looks > 0 for looks in self.running.values()))
        return [Started(id="1", pid=1) for _ in launches]

    def observe(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        return {item.job_id: self._look(item.job_id) for item in watched}

    def _look(self, job_id: str) -> Observation:
        self.running[job_id] -= 1
        if self.running[job_id] > 0:
            return RUNNING
        if any(job == job_id for job, _ in self.stopped):
            return Observation(Phase.ENDED, exit_code=75, stopped=True)
        codes = self.exit_codes.get(job_id) or [0]
        return Observation(Phase.ENDED, exit_code=codes.pop(0))

    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        self.stopped += [(item.job_id, force) for item in watched]


class Notes:
    """A display that remembers."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, State]] = []
        self.notes: list[str] = []

    def changed(self, record: JobRecord) -> None:
        self.changes.append((record.id, record.state))

    def refresh(self, records: Sequence[JobRecord]) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


class UnsavedManifest(Manifest):
    """Stays in memory."""

    def save(self) -> None:
        pass


def make_job(name: str, index: int = 0) -> Job:
    return Job(name, index, name, "run/x_", ("true",), {}, {}, None)


def make_engine(
    directory: Path,
    backend: Backend,
    names: Sequence[str],
    placement: Placement | None = None,
    **limits: Any,
) -> Engine:
    jobs = [make_job(name, index) for index, name in enumerate(names)]
    manifest = Manifest.create(directory / "manifest.json", [])
    manifest.records = {job.id: job.record() for job in jobs}
    engine = Engine(manifest, jobs, backend, placement or Placement(0), Limits(**limits), Notes())
    engine.clock = backend.clock if isinstance(backend, ScriptedBackend) else FakeClock()
    return engine


def already_running(engine: Engine, backend: ScriptedBackend, *names: str, looks: int = 3) -> None:
    """Jobs that an earlier launcher has started."""
    for record in engine.records:
        if record.id in names:
            record.state = State.RUNNING
            record.attempts.append(Attempt(1, "scripted"))
            backend.running[record.id] = looks


def states(engine: Engine) -> dict[str, State]:
    return {record.id: record.state for record in engine.records}


def test_jobs_that_end_with_zero_are_completed(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({}), "ab")
    engine.run()
    assert states(engine) == {"a": State.COMPLETED, "b": State.COMPLETED}


def test_any_other_exit_code_is_a_failure(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [1], "b": [-9], "c": [None]}), "abc")
    engine.run()
    assert set(states(engine).values()) == {State.FAILED}


def test_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [1]}), "abc", Placement(1))
    engine.run()
    assert states(engine) == {"a": State.FAILED, "b": State.COMPLETED, "c": State.COMPLETED}


def test_a_failure_stops_the_queue_if_asked_to(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [1]}), "abc", Placement(1), stop_on_failure=True)
    engine.run()
    assert states(engine) == {"a": State.FAILED, "b": State.QUEUED, "c": State.QUEUED}


def test_a_failed_job_is_retried_as_often_as_allowed(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [1, 1, 0], "b": [1, 1, 1, 0]}), "ab", max_retries=2)
    engine.run()
    assert states(engine) == {"a": State.COMPLETED, "b": State.FAILED}
    assert [len(record.attempts) for record in engine.records] == [3, 3]


def test_a_usage_error_is_never_retried(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [2, 0]}), "a", max_retries=5)
    engine.run()
    assert states(engine) == {"a": State.FAILED}


def test_a_preempted_job_starts_again_and_that_is_no_failure(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [75, 75, 75, 0]}), "a", max_retries=0)
    engine.run()
    assert states(engine) == {"a": State.COMPLETED}
    assert len(engine.records[0].attempts) == 4


def test_a_job_that_is_preempted_forever_is_given_up(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({"a": [75] * 9}), "a", max_requeues=3)
    engine.run()
    assert states(engine) == {"a": State.TIMEOUT}
    assert len(engine.records[0].attempts) == 4


def test_starts_are_apart_by_the_pause(tmp_path: Path) -> None:
    backend = ScriptedBackend({})
    make_engine(tmp_path, backend, "abc", pause_between=10).run()
    times = [time for _, time in backend.starts]
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(times))


def test_an_attempt_is_in_the_manifest_before_it_starts(tmp_path: Path) -> None:
    class Looking(ScriptedBackend):
        def start(self, launches: Sequence[Launch]) -> list[Started]:
            record = Manifest.load(tmp_path / "manifest.json").records["a"]
            assert (record.state, len(record.attempts)) == (State.SUBMITTED, 1)
            assert record.last_attempt.log == "logs/a.log"
            return super().start(launches)

        def log_of(self, job_id: str) -> str:
            return f"logs/{job_id}.log"

    make_engine(tmp_path, Looking({}), "a").run()


def test_a_refused_start_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    class Refusing(ScriptedBackend):
        def start(self, launches: Sequence[Launch]) -> list[Started]:
            return [Started(error="no such partition") for _ in launches]

    engine = make_engine(tmp_path, Refusing({}), "a")
    engine.run()
    assert engine.records[0].state is State.FAILED
    assert "no such partition" in engine.records[0].error


def test_a_stop_request_stops_running_jobs_and_leaves_the_queue(tmp_path: Path) -> None:
    backend = ScriptedBackend({}, looks=10)
    engine = make_engine(tmp_path, backend, "abc", Placement(2))
    already_running(engine, backend, "a", "b")
    engine.stop_request.request(ExitCode.INTERRUPTED)
    engine.run()
    assert states(engine) == {"a": State.INTERRUPTED, "b": State.INTERRUPTED, "c": State.QUEUED}
    assert backend.stopped == [("a", False), ("b", False)]
    assert exit_code_of(engine.records, engine.stop_request) == 130


def test_a_second_stop_request_kills(tmp_path: Path) -> None:
    class Impatient(ScriptedBackend):
        def stop(self, watched: Sequence[Watched], force: bool) -> None:
            super().stop(watched, force)
            if not force:
                engine.stop_request.request(ExitCode.INTERRUPTED)

    backend = Impatient({}, looks=10)
    engine = make_engine(tmp_path, backend, "a")
    already_running(engine, backend, "a", looks=10)
    engine.stop_request.request(ExitCode.INTERRUPTED)
    engine.run()
    assert backend.stopped == [("a", False), ("a", True)]


def test_jobs_of_a_scheduler_are_left_alone_by_a_stop_request(tmp_path: Path) -> None:
    class Scheduler(ScriptedBackend):
        outlives_launcher = True

    backend = Scheduler({}, looks=1000)
    engine = make_engine(tmp_path, backend, "a")
    already_running(engine, backend, "a", looks=1000)
    engine.stop_request.request(ExitCode.INTERRUPTED)
    engine.run()
    assert states(engine) == {"a": State.RUNNING}
    assert backend.stopped == []


def test_without_waiting_the_engine_leaves_when_all_is_submitted(tmp_path: Path) -> None:
    backend = ScriptedBackend({}, looks=1000)
    engine = make_engine(tmp_path, backend, "abc", wait=False)
    engine.run()
    assert set(states(engine).values()) == {State.RUNNING}
    assert len(backend.starts) == 3


def test_a_job_lost_with_an_earlier_launcher_starts_again(tmp_path: Path) -> None:
    backend = ScriptedBackend({"a": [None, 0]})
    engine = make_engine(tmp_path, backend, "a")
    already_running(engine, backend, "a", looks=2)
    engine.run()
    assert states(engine) == {"a": State.COMPLETED}
    assert len(engine.records[0].attempts) == 2


def test_a_running_job_of_an_earlier_launcher_takes_its_room(tmp_path: Path) -> None:
    backend = ScriptedBackend({}, looks=3)
    engine = make_engine(tmp_path, backend, "ab", Placement(1))
    already_running(engine, backend, "a", looks=3)
    engine.run()
    assert backend.most_running == 1


def test_a_full_disk_is_reported_and_does_not_end_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sample_factory.config.errors import ConfigError

    engine = make_engine(tmp_path, ScriptedBackend({}), "a")

    def refuse(self: Manifest) -> None:
        raise ConfigError("disk full")

    monkeypatch.setattr(Manifest, "save", refuse)
    engine.run()
    assert states(engine) == {"a": State.COMPLETED}
    assert "disk full" in engine._display.notes  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([State.COMPLETED, State.COMPLETED], 0),
        ([State.COMPLETED, State.FAILED, State.TIMEOUT], 1),
        ([State.COMPLETED, State.TIMEOUT], 75),
        ([State.COMPLETED, State.SUBMITTED], 0),
    ],
)
def test_the_exit_code_tells_how_it_went(tmp_path: Path, found: list[State], expected: int) -> None:
    engine = make_engine(tmp_path, ScriptedBackend({}), [str(index) for index in range(len(found))])
    for record, state in zip(engine.records, found, strict=True):
        record.state = state
    assert exit_code_of(engine.records, engine.stop_request) == expected


class Conductor:
    """Adds the next job whenever one is complete; drops `unwanted` as soon as something else is."""

    def __init__(self, names: str, unwanted: str = ""):
        self.waiting = list(names)
        self.unwanted = unwanted

    def direct(self, engine: Engine) -> bool:
        completed = [record for record in engine.records if record.state is State.COMPLETED]
        if completed and self.unwanted:
            engine.drop(self.unwanted, "nobody needs it")
            self.unwanted = ""
        if self.waiting and len(completed) == len(engine.records):
            engine.add([make_job(self.waiting.pop(0))])
        return bool(self.waiting)


def test_a_director_adds_jobs_while_others_run(tmp_path: Path) -> None:
    backend = ScriptedBackend({})
    engine = make_engine(tmp_path, backend, "")
    engine.run(Conductor("abc"))
    assert states(engine) == dict.fromkeys("abc", State.COMPLETED)
    assert [job for job, _ in backend.starts] == ["a", "b", "c"]


def test_an_added_job_that_is_complete_is_not_started_again(tmp_path: Path) -> None:
    backend = ScriptedBackend({})
    engine = make_engine(tmp_path, backend, "")
    record = make_job("a").record()
    record.state, record.attempts = State.COMPLETED, [Attempt(1, "scripted", exit_code=0)]
    engine._manifest.records["a"] = record
    engine.run(Conductor("ab"))
    assert [job for job, _ in backend.starts] == ["b"]


def test_an_added_job_that_still_runs_is_adopted(tmp_path: Path) -> None:
    backend = ScriptedBackend({})
    engine = make_engine(tmp_path, backend, "")
    record = make_job("a").record()
    record.state, record.attempts = State.RUNNING, [Attempt(1, "scripted")]
    engine._manifest.records["a"] = record
    backend.running["a"] = 2
    engine.run(Conductor("a"))
    assert states(engine) == {"a": State.COMPLETED}
    assert backend.starts == []


def test_dropped_jobs_end_without_being_failures_or_being_started(tmp_path: Path) -> None:
    class Uneven(ScriptedBackend):
        """`slow` has many looks before it ends."""

        def start(self, launches: Sequence[Launch]) -> list[Started]:
            started = super().start(launches)
            if any(launch.job.id == "s" for launch in launches):
                self.running["s"] = 8
            return started

    backend = Uneven({})
    # `s` runs when `a` is complete; `q` still waits for room.
    engine = make_engine(tmp_path, backend, "saq", Placement(2))
    engine.run(Conductor("", unwanted="sq"))
    assert states(engine) == {"s": State.INTERRUPTED, "a": State.COMPLETED, "q": State.INTERRUPTED}
    assert {record.error for record in engine.records} == {"", "nobody needs it"}
    assert [job for job, _ in backend.starts] == ["s", "a"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), parallel=st.integers(1, 4), retries=st.integers(0, 2))
def test_whatever_happens_every_job_ends_and_limits_hold(seed: int, parallel: int, retries: int) -> None:
    rng = random.Random(seed)
    names = [f"job{index}" for index in range(rng.randint(1, 8))]
    codes: dict[str, list[int | None]] = {
        name: [rng.choice([0, 0, 1, 2, 75, -9, None]) for _ in range(8)] for name in names
    }
    backend = ScriptedBackend(codes, looks=rng.randint(1, 4))
    placement = Placement(parallel, ["0", "1"], 2)
    engine = make_engine(Path("none"), backend, names, placement, max_retries=retries, max_requeues=2)
    engine._manifest.__class__ = UnsavedManifest
    engine.run()
    assert backend.most_running <= parallel
    for record in engine.records:
        results = [attempt.exit_code for attempt in record.attempts]
        failures = [code for code in results if code not in (0, 75)]
        assert (record.state is State.COMPLETED) == (results[-1] == 0)
        assert results.count(75) <= 3
        assert len(failures) <= retries + 1
        assert 2 not in results[:-1]
