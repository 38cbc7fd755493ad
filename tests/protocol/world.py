"""The whole engine in one process, polled in any order a test likes, and watched after every poll.

Everything is the real thing except the environments, the networks and the learners: those are echoes that
check what reaches them.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.batcher import Batcher
from sample_factory.algorithms.appo.board import Board, Stopwatch
from sample_factory.algorithms.appo.inference import LocalInference, RemoteInference
from sample_factory.algorithms.appo.messages import (
    RepeatRequests,
    TrajectoryReady,
    decode,
    encode,
    next_tick,
)
from sample_factory.algorithms.appo.policy_mapping import PolicyMapping
from sample_factory.algorithms.appo.policy_worker import PolicyLinks, PolicyWorker
from sample_factory.algorithms.appo.rollout_worker import RolloutLinks, RolloutSettings, RolloutWorker
from sample_factory.algorithms.appo.split import Phase, Split
from sample_factory.algorithms.appo.trajectories import (
    NO_POLICY,
    SlotLedger,
    SlotState,
    TrajectoryStore,
)
from sample_factory.envs.multi_agent_vector import MultiAgentVector
from sample_factory.envs.vector import SingleAgentVector
from sample_factory.processes.channels import LocalChannel, LocalReporter
from sample_factory.processes.kernel_lock import NoLock
from tests.protocol.echo import EchoEnv, EchoPolicy, EchoTeamEnv, Habits, KilledError, Trace, echo_layout
from tests.protocol.shapes import Shape
from tests.protocol.watched_channels import AnswersOnce, Deadly


@dataclass
class Trajectory:
    """One row of a batch, or one slot."""

    obs: np.ndarray
    arrays: dict[str, np.ndarray]

    @property
    def frames(self) -> int:
        return int(self.arrays["frames"].sum())


@dataclass
class CheckingLearner:
    """Takes batches like a learner and compares every number with what happened."""

    world: World
    policy_id: int
    batcher: Batcher
    frames: int = 0
    batches: int = 0
    versions_seen: list[set[int]] = field(default_factory=list)  # per batch: versions that chose its actions
    enabled: bool = True

    def poll(self, timeout: float) -> None:
        self.batcher.receive()
        batch = self.batcher.take(self.world.shape.slots_per_batch) if self.enabled else None
        if batch is None:
            return
        versions: set[int] = set()
        for i in range(batch.num_trajectories):
            trajectory = Trajectory(batch.obs["obs"][i], {k: a[i] for k, a in batch.arrays.items()})
            trace, first = self.world.check_trajectory(trajectory)
            assert self.policy_id not in trace.readers[first], "a trajectory was read twice"
            trace.readers[first].add(self.policy_id)
            own = trajectory.arrays["policy_ids"] == self.policy_id
            assert own.any() or self.world.takes_turns, "a policy got a trajectory in which it did not act"
            versions |= set(trajectory.arrays["policy_versions"][own].tolist())
            self.frames += int(trajectory.arrays["frames"][own].sum())
        self.versions_seen.append(versions)
        self.batches += 1
        self.world.versions[self.policy_id] += 1
        board = self.world.board
        board.env_steps[self.policy_id] = self.frames
        board.iterations[self.policy_id] = self.batches
        self.batcher.wake_waiting_workers()

    def close(self) -> None:
        pass


class World:
    """All components of one session, and the truth about what happened in it."""

    def __init__(self, shape: Shape, seed: int, habits: Habits | None = None):
        self.shape = shape
        self.rng = random.Random(seed)
        self.habits = habits or Habits()
        self.nonces = itertools.count()
        self.traces: dict[int, Trace] = {}
        self.envs: list[EchoEnv | EchoTeamEnv] = []
        self.versions = [0] * shape.policies
        self.deaths = 0
        layout = echo_layout(shape.rollout)
        board = Board.specs(shape.policies, shape.workers, shape.splits, shape.agents_per_split, 1)
        ledger = SlotLedger.specs(shape.num_slots, shape.policies)
        specs = board | ledger | layout.specs(shape.num_slots)
        arrays: Any = {name: np.full(spec.shape, spec.fill, spec.dtype) for name, spec in specs.items()}
        self.store = TrajectoryStore(layout, arrays)
        self.board = Board(arrays)
        self.ledger = SlotLedger(arrays, NoLock())
        self.states, self.owners = arrays["slot_states"], arrays["slot_owners"]
        self.awaited = arrays["slot_awaited"]
        self.rollout_inboxes = [AnswersOnce() for _ in range(shape.workers)]
        self.policy_inboxes = [
            [LocalChannel() for _ in range(shape.policy_workers)] for _ in range(shape.policies)
        ]
        self.batcher_inboxes = [Deadly() for _ in range(shape.policies)]
        self.reporter = LocalReporter()
        self.learners = [self._make_learner(policy_id) for policy_id in range(shape.policies)]
        self.policy_workers: dict[tuple[int, int], PolicyWorker | None] = {
            (policy_id, index): self._make_policy_worker(policy_id, index)
            for policy_id in range(shape.policies)
            for index in range(shape.policy_workers)
        }
        self.rollout_workers: list[RolloutWorker | None] = [
            self._make_rollout_worker(worker_id) for worker_id in range(shape.workers)
        ]

    @property
    def takes_turns(self) -> bool:
        return self.shape.trajectories_per_iteration > 0

    # Building

    def _make_learner(self, policy_id: int) -> CheckingLearner:
        inbox = self.batcher_inboxes[policy_id]
        batcher = Batcher(policy_id, self.store, self.ledger, self.board, inbox, self.rollout_inboxes)
        return CheckingLearner(self, policy_id, batcher)

    def _make_policy_worker(self, policy_id: int, index: int) -> PolicyWorker:
        links = PolicyLinks(
            self.board, self.policy_inboxes[policy_id][index], self.rollout_inboxes, Stopwatch(self.board, 0)
        )
        return PolicyWorker(policy_id, EchoPolicy(policy_id, self.store, self), links, self.rng.randint(1, 3))

    def _make_rollout_worker(self, worker_id: int) -> RolloutWorker:
        shape = self.shape
        inference: Any
        if shape.policy_workers:
            inference = RemoteInference(worker_id, self.board, self.policy_inboxes)
        else:
            inference = LocalInference({p: EchoPolicy(p, self.store, self) for p in range(shape.policies)})
        links = RolloutLinks(
            ledger=self.ledger,
            board=self.board,
            inbox=self.rollout_inboxes[worker_id],
            batchers=self.batcher_inboxes,
            inference=inference,
            reporter=self.reporter,
            stopwatch=Stopwatch(self.board, 0),
        )
        splits = [self._make_split(worker_id, split_id) for split_id in range(shape.splits)]
        settings = RolloutSettings(
            to_env_actions=lambda actions: actions.copy(),
            trajectories_per_iteration=shape.trajectories_per_iteration,
        )
        return RolloutWorker(worker_id, splits, links, settings)

    def _make_split(self, worker_id: int, split_id: int) -> Split:
        shape = self.shape
        envs = [self._make_env() for _ in range(shape.envs_per_split)]
        seeds = list(range(shape.envs_per_split))
        vector = (
            SingleAgentVector(envs, seeds) if shape.agents_per_env == 1 else MultiAgentVector(envs, seeds)
        )
        first_env = (worker_id * shape.splits + split_id) * shape.envs_per_split
        mapping = PolicyMapping(
            shape.envs_per_split,
            shape.agents_per_env,
            shape.policies,
            seed=self.rng.randrange(1000),
            fixed_from=first_env if shape.trajectories_per_iteration else None,
        )
        last_tick = int(self.board.split_ticks[worker_id, split_id])
        split = Split(split_id, vector, self.store, mapping, next_tick(last_tick))
        split.vector.reset(split.carried_rows)
        return split

    def _make_env(self) -> EchoEnv | EchoTeamEnv:
        traces = []
        for _ in range(self.shape.agents_per_env):
            trace = Trace(agent=len(self.traces))
            self.traces[trace.agent] = trace
            traces.append(trace)
        rng = random.Random(self.rng.random())
        one = self.shape.agents_per_env == 1
        env = EchoEnv(traces[0], self.habits, rng) if one else EchoTeamEnv(traces, self.habits, rng)
        self.envs.append(env)
        return env

    # Running

    def components(self) -> list[Any]:
        found = [*self.rollout_workers, *self.policy_workers.values(), *self.learners]
        return [component for component in found if component is not None]

    def poll(self, component: Any) -> None:
        """Polls one component; it is gone if it dies meanwhile."""
        try:
            component.poll(0.0)
        except KilledError:
            self.remove(component)
        self.check_slots()

    def run(self, polls: int) -> None:
        """Polls at random; some components come up often, others hardly ever."""
        components = self.components()
        weights = [self.rng.random() ** 3 + 1e-3 for _ in components]
        for component in self.rng.choices(components, weights, k=polls):
            if not self._is_gone(component):
                self.poll(component)

    def _is_gone(self, component: Any) -> bool:
        return not any(component is living for living in self.components())

    def goes_on(self) -> bool:
        """Whether a batch is trained on within a bounded number of fair rounds."""
        before = self.batches()
        rounds = 4 * (self.shape.rollout + 2) * (self.shape.num_slots + 2)
        for _ in range(rounds):
            for component in self.components():
                self.poll(component)
            if self.batches() > before:
                return True
        return False

    def batches(self) -> int:
        return sum(learner.batches for learner in self.learners)

    def live_splits(self) -> list[tuple[int, Split]]:
        return [(w.worker_id, split) for w in self.rollout_workers if w is not None for split in w.splits]

    # Deaths and replacements

    def remove(self, component: Any) -> None:
        """The component is gone; everything it has not written or sent is lost."""
        self.deaths += 1
        if isinstance(component, RolloutWorker):
            self.rollout_workers[component.worker_id] = None
            return
        for place, worker in self.policy_workers.items():
            if worker is component:
                self.policy_workers[place] = None

    def replace_dead(self) -> None:
        """Does what the session does: clears up after the dead and starts them again."""
        for worker_id, worker in enumerate(self.rollout_workers):
            if worker is None:
                self.board.withdraw_requests(worker_id)
                self.rollout_inboxes[worker_id].receive()
                self.ledger.reclaim(worker_id)
                self.rollout_workers[worker_id] = self._make_rollout_worker(worker_id)
        for (policy_id, index), policy_worker in self.policy_workers.items():
            if policy_worker is None:
                self.policy_inboxes[policy_id][index].receive()
                self.policy_workers[policy_id, index] = self._make_policy_worker(policy_id, index)
                for inbox in self.rollout_inboxes:
                    inbox.send([encode(RepeatRequests(policy_id))])

    def replace_learner(self, policy_id: int) -> None:
        """A learner that died starts again and looks for what its predecessor had not read."""
        self.deaths += 1
        old, new = self.learners[policy_id], self._make_learner(policy_id)
        new.frames, new.batches, new.versions_seen = old.frames, old.batches, old.versions_seen
        new.batcher.recover()
        self.learners[policy_id] = new

    # What must always be true

    def check_right_to_act(self, policy_id: int, slots: list[int], rows: list[int]) -> None:
        """A policy writes only into rows that wait for its actions."""
        assert len(set(slots)) == len(slots), "a row is answered twice in one forward pass"
        holders = {
            slot: (split, agent)
            for _, split in self.live_splits()
            if split.phase in (Phase.AWAITS_ACTIONS, Phase.NEEDS_ACTIONS)
            for agent, slot in enumerate(split.slots.tolist())
        }
        for slot, row in zip(slots, rows, strict=True):
            assert self.states[slot] == SlotState.FILLING, "a policy writes into a slot that nobody fills"
            if self.rollout_workers[self.owners[slot]] is None:
                continue  # its worker has just died, so nobody will read it
            split, agent = holders[slot]
            assert split.row == row
            assert split.mapping.policies[agent] == policy_id

    def check_slots(self) -> None:
        """No slot is lost, and none is in two hands."""
        states, owners, awaited = self.states.tolist(), self.owners.tolist(), self.awaited.tolist()
        held: dict[int, int] = {}
        for worker_id, split in self.live_splits():
            if split.phase is not Phase.NEEDS_SLOTS:
                slots = split.slots.tolist()
                assert not held.keys() & set(slots), "a slot is held by two splits"
                held |= dict.fromkeys(slots, worker_id)
        for slot, state in enumerate(states):
            if slot in held:
                assert state == SlotState.FILLING
                assert owners[slot] == held[slot]
            elif state == SlotState.FILLING:
                assert self.rollout_workers[owners[slot]] is None, "a slot is lost"
        for policy_id, learner in enumerate(self.learners):
            announced = {decode(record) for record in self.batcher_inboxes[policy_id].records}
            known = learner.batcher.ready_slots()
            assert len(set(known)) == len(known)
            known += [m.slot for m in announced if isinstance(m, TrajectoryReady)]
            assert all(states[slot] == SlotState.READY and awaited[slot][policy_id] for slot in known)

    def check_trajectory(self, trajectory: Trajectory) -> tuple[Trace, int]:
        """Compares every row with what happened; returns whose it is and where it starts."""
        obs, arrays = trajectory.obs, {k: a.tolist() for k, a in trajectory.arrays.items()}
        agents, numbers = obs[:, 0].astype(int).tolist(), obs[:, 1].astype(int).tolist()
        assert len(set(agents)) == 1, "a trajectory mixes agents, or lives of an environment"
        trace = self.traces[agents[0]]
        for t, number in enumerate(numbers[:-1]):
            row = trace.rows[number]
            assert numbers[t + 1] == row.next
            stored = [arrays[name][t] for name in ("rewards", "frames", "dones", "time_outs")]
            assert stored == [row.reward, row.frames, row.done, row.time_out]
            agent, echoed, nonce, policy_id = arrays["outputs"][t][:4]
            assert (agent, echoed) == (trace.agent, number)
            assert row.nonce is None or nonce == row.nonce, "the store holds another action than was executed"
            assert arrays["policy_ids"][t] == (policy_id if row.valid else NO_POLICY)
            trace.policies[number] = arrays["policy_ids"][t]
        assert [state[0] for state in arrays["rnn_states"]] == [trace.rnn[number] for number in numbers]
        trace.readers.setdefault(numbers[0], set())
        trace.ends[numbers[0]] = numbers[-1]
        return trace, numbers[0]

    def check_everything_is_accounted_for(self) -> None:
        """Trajectories follow each other without a gap, and their frames are all the frames there were."""
        waiting = self._check_waiting_trajectories()
        handed_over = still_open = read = 0
        for trace in self.traces.values():
            number: int | None = 0
            end = covered = 0
            while number is not None:
                end = number
                if number in trace.ends:
                    number, covered = trace.ends[number], covered + 1
                else:
                    number = self._end_of_unused(trace, number)
            assert covered == len(trace.ends), "there is a gap between two trajectories"
            handed_over += sum(row.frames for n, row in trace.rows.items() if n < end)
            still_open += sum(row.frames for n, row in trace.rows.items() if n >= end)
        if self.deaths == 0:  # a worker may die between handing over and counting
            assert int(self.board.sampled_frames.sum()) == handed_over
        assert handed_over + still_open == sum(env.frames for env in self.envs)

        for trace in self.traces.values():
            for first, readers in trace.readers.items():
                actors = {trace.policies[n] for n in trace.trajectory(first)} - {NO_POLICY}
                assert readers == actors or (trace.agent, first) in waiting or self.takes_turns
                read += sum(
                    trace.rows[n].frames for n in trace.trajectory(first) if trace.policies[n] in readers
                )
        assert sum(learner.frames for learner in self.learners) == read

    def _check_waiting_trajectories(self) -> set[tuple[int, int]]:
        """Looks at what is ready and not yet read by everyone; returns agents and first rows."""
        names = ("rnn_states", "outputs", "policy_ids", "rewards", "dones", "time_outs", "frames")
        waiting = set()
        for slot in np.flatnonzero(self.states == SlotState.READY):
            arrays = {name: self.store.arrays[name][slot] for name in names}
            trace, first = self.check_trajectory(Trajectory(self.store.obs["obs"][slot], arrays))
            waiting.add((trace.agent, first))
        return waiting

    def _end_of_unused(self, trace: Trace, number: int) -> int | None:
        """Where a trajectory ends that was given back because nobody acted in it; None if there is none."""
        if self.takes_turns:
            return None
        for _ in range(self.shape.rollout):
            row = trace.rows.get(number)
            if row is None or row.valid:
                return None
            number = row.next
        return number
