"""Kills random components of a training run, and measures what that costs.

A control run is the same program without kills. All numbers are read from outside (`watched_run`), ten times
a second. What counts as lost is decided by what the killed learner had published: see `LearnerLoss`.

Invariant: a kill is only followed by the next one when the run has recovered from it, or the time for that is
over, which is counted as a failure.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sample_factory.bench.watched_run import Member, Reading, WatchedRun, descriptors
from sample_factory.processes.ends import ProcessHandle

START_TIMEOUT_SEC = 300.0
RECOVERY_TIMEOUT_SEC = 60.0
END_TIMEOUT_SEC = 120.0
DEATH_TIMEOUT_SEC = 5.0
LEFTOVER_TIMEOUT_SEC = 10.0
READ_EVERY_SEC = 0.1
WARM_UP_SEC = 5.0
WIND_DOWN_SEC = 3.0  # processes that have ended take their CPU seconds with them


@dataclass
class Kill:
    """One kill and what followed."""

    seconds: float
    role: str
    title: str
    recovery_sec: float | None = None  # None: it had not recovered when the time was over


@dataclass
class LearnerLoss:
    """What went back when a learner was replaced.

    A dead learner's last published policy version and its frame counter are read after its death, the lowest
    values that its successor shows until it has recovered are compared with them.
    """

    version_at_death: int
    env_steps_at_death: int
    versions_lost: int = 0
    frames_lost: int = 0

    def compare(self, reading: Reading) -> None:
        """Notes the lowest counters seen since."""
        self.versions_lost = max(self.versions_lost, self.version_at_death - reading.version)
        self.frames_lost = max(self.frames_lost, self.env_steps_at_death - reading.env_steps)


@dataclass
class RunRecording:
    """Everything that was seen of one run."""

    readings: list[Reading] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    losses: list[LearnerLoss] = field(default_factory=list)
    exit_code: int | None = None
    orphans: list[int] = field(default_factory=list)
    shared_memory: list[str] = field(default_factory=list)
    main_descriptors: list[int] = field(default_factory=list)
    most_filling: int = 0  # slots held by workers at the end; more than agents would be slots of the dead
    num_agents: int = 0

    def between_kills(self) -> tuple[int, float, float]:
        """Frames trained, seconds, and CPU seconds, outside of recoveries."""
        frames, seconds, cpu = 0, 0.0, 0.0
        starts = [WARM_UP_SEC + self.readings[0].seconds]
        starts += [kill.seconds + (kill.recovery_sec or RECOVERY_TIMEOUT_SEC) for kill in self.kills]
        ends = [kill.seconds for kill in self.kills] + [self.readings[-1].seconds - WIND_DOWN_SEC]
        for start, end in zip(starts, ends, strict=True):
            inside = [r for r in self.readings if start <= r.seconds <= end]
            if len(inside) > 1:
                frames += inside[-1].env_steps - inside[0].env_steps
                seconds += inside[-1].seconds - inside[0].seconds
                cpu += inside[-1].cpu - inside[0].cpu
        return frames, seconds, cpu

    def overall(self) -> tuple[int, float]:
        """Frames trained, and seconds, without the warm-up and the end."""
        first, last = self.readings[0].seconds + WARM_UP_SEC, self.readings[-1].seconds - WIND_DOWN_SEC
        inside = [r for r in self.readings if first <= r.seconds <= last]
        return inside[-1].env_steps - inside[0].env_steps, inside[-1].seconds - inside[0].seconds


@dataclass(frozen=True)
class KillPlan:
    """When to kill."""

    count: int = 0
    every_sec: float = 3.0
    seed: int = 0


def record_run(arguments: Sequence[str], output: Path, plan: KillPlan) -> RunRecording:
    """Starts a training, kills components as planned, and watches it until it ends by itself."""
    run = WatchedRun(arguments, output)
    try:
        run.attach(START_TIMEOUT_SEC)
        recording = RunRecording(num_agents=run.num_agents)
        _Driver(run, recording, plan).drive()
    finally:
        run.end()
    return recording


class _Driver:
    def __init__(self, run: WatchedRun, recording: RunRecording, plan: KillPlan):
        self._run = run
        self._recording = recording
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._pending: tuple[Kill, Member, Reading, int] | None = None

    def drive(self) -> None:
        """Watches, and kills, until the program has ended."""
        run, recording = self._run, self._recording
        next_kill = run.seconds() + WARM_UP_SEC + self._pause()
        while run.is_running:
            run.wait(READ_EVERY_SEC)
            recording.readings.append(run.read())
            self._watch_recovery()
            recording.main_descriptors.append(descriptors(run.process.pid))
            due = len(recording.kills) < self._plan.count and run.seconds() >= next_kill
            if due and self._pending is None and self._kill():
                next_kill = run.seconds() + self._pause()
        recording.exit_code = run.process.returncode
        recording.orphans, recording.shared_memory = run.leftovers(LEFTOVER_TIMEOUT_SEC)
        last = recording.readings[-50:]
        recording.most_filling = max((reading.filling for reading in last), default=0)

    def _pause(self) -> float:
        return self._plan.every_sec * self._random.uniform(0.5, 1.5)

    def _kill(self) -> bool:
        victims = self._run.victims()
        if not victims:
            return False
        role = self._random.choice(sorted(victims))
        victim = self._random.choice(sorted(victims[role], key=lambda member: member.pid))
        same_title = sum(member.title == victim.title for member in victims[role])
        before = self._run.read()
        try:
            with contextlib.closing(ProcessHandle(victim.pid)) as process:
                os.kill(victim.pid, signal.SIGKILL)
                # A killed process writes nothing any more once the kernel has taken its memory away.
                process.wait(DEATH_TIMEOUT_SEC)
        except ProcessLookupError:
            return False
        kill = Kill(before.seconds, victim.role, victim.title)
        self._recording.kills.append(kill)
        after = self._run.read()
        if victim.role == "learner":
            self._recording.losses.append(LearnerLoss(after.version, after.env_steps))
        self._pending = kill, victim, after, same_title
        return True

    def _watch_recovery(self) -> None:
        """Recovered: the component is back, and frames have come through it."""
        if self._pending is None:
            return
        kill, victim, at_death, same_title = self._pending
        now = self._recording.readings[-1]
        if victim.role == "learner":
            self._recording.losses[-1].compare(now)
        back = [m for m in self._run.members() if m.title == victim.title and m.pid != victim.pid]
        if len(back) == same_title and _has_worked(victim, at_death, now):
            kill.recovery_sec = now.seconds - kill.seconds
            self._pending = None
        elif now.seconds - kill.seconds > RECOVERY_TIMEOUT_SEC:
            self._pending = None


def _has_worked(victim: Member, before: Reading, now: Reading) -> bool:
    if victim.role == "learner":
        return now.env_steps > before.env_steps
    if victim.role == "rollout worker":
        worker_id = int(victim.title.rpartition("_")[2])
        return now.sampled[worker_id] > before.sampled[worker_id]
    return sum(now.sampled) > sum(before.sampled)
