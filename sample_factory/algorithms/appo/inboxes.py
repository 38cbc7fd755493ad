"""The inboxes of all components, and how large each must be.

Made once by the session's `Site`, and given to every component.

Invariant: no inbox can fill, because it has room for the most messages that can be under way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sample_factory.algorithms.appo.plan import Plan
from sample_factory.processes.channels import Channel, LocalChannel, PipeChannel, PipeChannels


@dataclass(frozen=True)
class Channels:
    """Inboxes of all components."""

    rollout_workers: Sequence[Channel]
    policy_workers: Sequence[Sequence[Channel]]  # [policy][worker]
    batchers: Sequence[Channel]

    @classmethod
    def make(cls, plan: Plan, local: bool) -> Channels:
        """Inboxes that cannot fill: each is as large as the most messages that can be under way to it."""

        def channels(count: int, capacity: int) -> Sequence[Channel]:
            if local:
                return [LocalChannel() for _ in range(count)]
            return PipeChannels([PipeChannel(capacity) for _ in range(count)])

        answers = plan.num_splits * plan.num_actors
        wake_ups = answers  # a split says that it waits, and each batcher may be the one to tell it
        repetitions = plan.num_actors * plan.policy_workers_per_policy
        requests = plan.num_workers * plan.num_splits
        # A batcher may find a slot in the ledger, and be told of it later.
        announcements = plan.num_slots + plan.num_workers * plan.agents_per_split
        return cls(
            rollout_workers=channels(plan.num_workers, answers + wake_ups + repetitions),
            policy_workers=[
                channels(plan.policy_workers_of(actor_id), 2 * requests)
                for actor_id in range(plan.num_actors)
            ],
            batchers=channels(plan.num_policies, announcements),
        )

    def close(self) -> None:
        """Closes all ends in this process."""
        for channels in (self.rollout_workers, *self.policy_workers, self.batchers):
            if isinstance(channels, PipeChannels):
                channels.close()
