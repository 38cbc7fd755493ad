"""The rollout worker: steps environments and fills trajectories.

It owns its environments and, slot by slot, the rows it is filling. Splits take turns: while one waits for
actions from a policy worker, another steps its environments.

Invariant: a split takes all the slots it needs or none, and gives none back half-filled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.board import Activity, Board, Stopwatch
from sample_factory.algorithms.appo.inference import Inference
from sample_factory.algorithms.appo.matches import MatchBook
from sample_factory.algorithms.appo.messages import (
    ActionsReady,
    RepeatRequests,
    TrajectoryReady,
    decode,
    encode,
)
from sample_factory.algorithms.appo.population import reward_shaping_path
from sample_factory.algorithms.appo.split import Phase, Split
from sample_factory.algorithms.appo.trajectories import NO_POLICY, SlotLedger
from sample_factory.envs.vector import EpisodeEnd
from sample_factory.monitoring.reports import EpisodeReport
from sample_factory.processes.channels import Channel, Reporter

REPORT_INTERVAL_SEC = 0.5


@dataclass(frozen=True)
class RolloutSettings:
    """What a rollout worker does beyond stepping."""

    to_env_actions: Callable[[np.ndarray], Any]  # [agents, actions] -> what the split's vector takes
    reward_scale: float = 1.0
    reward_clip: float = 10.0
    trajectories_per_iteration: int = 0  # > 0: collect that many per agent, then wait for the learner
    pause_after_first_sec: float = 0.0  # spreads the workers in time, so that their batches differ


@dataclass(frozen=True)
class RolloutLinks:
    """What a rollout worker shares with the others."""

    ledger: SlotLedger
    board: Board
    inbox: Channel
    batchers: Sequence[Channel]  # one per policy
    inference: Inference
    reporter: Reporter
    stopwatch: Stopwatch
    directory: Path = Path()  # of the experiment: where reward shaping is found


class RolloutWorker:
    """One worker's splits and their progress."""

    def __init__(
        self,
        worker_id: int,
        splits: Sequence[Split],
        links: RolloutLinks,
        settings: RolloutSettings,
        matches: Sequence[MatchBook] = (),
    ):
        """`matches` has one book per split where policies meet each other, or none at all."""
        self.worker_id = worker_id
        self._matches = list(matches)
        self.splits = list(splits)
        self._links = links
        self._settings = settings
        self._board = links.board
        self._watch = links.stopwatch
        self._episodes: list[EpisodeReport] = []
        self._next_report = time.monotonic() + REPORT_INTERVAL_SEC
        self._sleep_until = 0.0
        self._shaping_numbers = np.zeros_like(links.board.shaping_number)
        self._shapings: dict[int, dict[str, Any]] = {}
        self._first_rollout_done = settings.pause_after_first_sec <= 0
        # With local inference nobody writes until a split has waited, and looking costs a system call.
        self._expects_messages = links.inference.answers_by_message

    def poll(self, timeout: float) -> None:
        """Reads messages, then moves every split as far as it can go without waiting."""
        progress = [self._advance(split) for split in self.splits] if not self._asleep() else []
        if time.monotonic() >= self._next_report:
            self._send_reports()
        if not any(progress):
            self._read_inbox(timeout)
        elif self._expects_messages:
            self._read_inbox(0.0)

    def _asleep(self) -> bool:
        return self._sleep_until > 0 and time.monotonic() < self._sleep_until

    def _advance(self, split: Split) -> bool:
        """One piece of work for one split; False when it has to wait."""
        if split.phase is Phase.NEEDS_SLOTS and not self._start(split):
            return False
        if split.phase is Phase.NEEDS_ACTIONS:
            self._request_actions(split)
        if split.phase is not Phase.HAS_ACTIONS:
            return False
        self._step(split)
        return True

    def _start(self, split: Split) -> bool:
        """Begins new trajectories if the learners want them and slots are free."""
        slots = self._claim(split)
        if slots is None:
            # Said before a last look: whoever frees slots after that look reads this after freeing them.
            self._board.waiting[self.worker_id] = True
            self._expects_messages = True
            slots = self._claim(split)
        if slots is None:
            return False
        split.vector.training_frames = int(self._board.env_steps.sum())
        self._shape_rewards(split)
        split.begin(slots)
        return True

    def _claim(self, split: Split) -> np.ndarray | None:
        if not self._may_start(split):
            return None
        return self._links.ledger.claim(self.worker_id, split.num_agents)

    def _shape_rewards(self, split: Split) -> None:
        """Gives the environments the reward schemes that population-based training has chosen."""
        numbers = self._board.shaping_number
        if not numbers.any():
            return
        for policy_id in np.flatnonzero(numbers != self._shaping_numbers):
            self._shaping_numbers[policy_id] = numbers[policy_id]
            path = reward_shaping_path(self._links.directory, int(policy_id))
            self._shapings[int(policy_id)] = json.loads(path.read_text())
        split.vector.shape_rewards([self._shapings[int(p)] for p in split.mapping.policies])

    def _may_start(self, split: Split) -> bool:
        policies = np.unique(split.mapping.policies)
        per_iteration = self._settings.trajectories_per_iteration
        if per_iteration:
            due = self._board.collected[self.worker_id, split.split_id] // per_iteration
            return bool((self._board.iterations[policies] >= due).all())
        return not self._board.paused[policies].any()

    def _request_actions(self, split: Split) -> None:
        self._watch.switch(Activity.INFERENCE)
        split.awaited = self._links.inference.request(
            split.split_id, split.tick, split.slots, split.mapping.actors, split.row
        )
        if not split.awaited:
            split.phase = Phase.HAS_ACTIONS
        elif self._links.inference.answers_by_message:
            split.phase = Phase.AWAITS_ACTIONS
        self._watch.switch(Activity.OTHER)

    def _step(self, split: Split) -> None:
        settings = self._settings
        actions = settings.to_env_actions(split.actions())
        self._watch.switch(Activity.ENVIRONMENT)
        episodes = split.step(actions)
        self._watch.switch(Activity.OTHER)
        if episodes:
            self._note_episodes(split, episodes)
        if split.is_full:
            self._finish(split)

    def _note_episodes(self, split: Split, episodes: Sequence[EpisodeEnd]) -> None:
        for end in episodes:
            policy_id = int(split.mapping.recorded[end.agent_index])
            if policy_id != NO_POLICY:  # what a guest from the league got is nobody's result
                self._episodes.append(
                    EpisodeReport(policy_id, end.reward, end.true_reward, end.length_frames, end.extra)
                )
        book = self._matches[split.split_id] if self._matches else None
        if book is not None:
            book.note(episodes)
        if split.mapping.episodes_ended([end.agent_index for end in episodes]):
            split.vector.tell_policies(split.mapping.policies)
        if book is not None:
            book.remapped(episodes)

    def _finish(self, split: Split) -> None:
        """Hands full trajectories to the batchers of the policies that acted in them."""
        links = self._links
        readers = split.finish(self._settings.reward_scale, self._settings.reward_clip)
        if self._settings.trajectories_per_iteration:  # a learner that counts must get its number
            readers = [r or [int(p)] for r, p in zip(readers, split.mapping.policies, strict=True)]
        used = np.array([bool(policies) for policies in readers])
        links.ledger.hand_over(split.slots[used], [policies for policies in readers if policies])
        if not used.all():
            links.ledger.give_back(split.slots[~used])
        slots = split.slots.tolist()
        for policy_id, batcher in enumerate(links.batchers):
            mine = [slot for slot, policies in zip(slots, readers, strict=True) if policy_id in policies]
            if mine:
                batcher.send(encode(TrajectoryReady(slot)) for slot in mine)
        self._board.collected[self.worker_id, split.split_id] += 1
        self._board.sampled_frames[self.worker_id] += split.frames_collected()
        if not self._first_rollout_done:
            self._first_rollout_done = True
            self._sleep_until = time.monotonic() + self._settings.pause_after_first_sec

    def _read_inbox(self, timeout: float) -> None:
        if timeout > 0:
            self._watch.switch(Activity.WAITING)
        records = self._links.inbox.receive(timeout)
        self._expects_messages = self._links.inference.answers_by_message
        if timeout > 0:
            self._watch.switch(Activity.OTHER)
        for record in records:
            message = decode(record)
            if isinstance(message, ActionsReady):
                self._actions_ready(message)
            elif isinstance(message, RepeatRequests):
                self._repeat_requests(message.policy_id)

    def _actions_ready(self, message: ActionsReady) -> None:
        split = self.splits[message.split_id]
        if split.phase is Phase.AWAITS_ACTIONS and message.tick == split.tick:
            split.awaited.discard(message.policy_id)
            if not split.awaited:
                split.phase = Phase.HAS_ACTIONS

    def _repeat_requests(self, policy_id: int) -> None:
        for split in self.splits:
            if split.phase is Phase.AWAITS_ACTIONS and policy_id in split.awaited:
                self._links.inference.repeat(split.split_id, split.tick, policy_id)

    @property
    def inference(self) -> Inference:
        """Where the actions come from."""
        return self._links.inference

    def _send_reports(self) -> None:
        self._next_report = time.monotonic() + REPORT_INTERVAL_SEC
        if self._episodes:
            self._links.reporter.send(self._episodes)
            self._episodes = []
        for book in self._matches:
            if finished := book.take():
                self._links.reporter.send(finished)

    def close(self) -> None:
        """Sends the last episodes and closes the environments."""
        self._send_reports()
        for split in self.splits:
            split.vector.close()
