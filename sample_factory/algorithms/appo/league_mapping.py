"""Which policy controls which agent when past policies may take part.

In a fraction of the draws half of an environment's agents are given to a seat: a place for a past policy,
which acts under the number `num_policies + seat` and does not learn.

Invariant: `policies` always names a policy that learns, also for agents that a guest plays: the one whose
turn it would have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.policy_mapping import PolicyMapping
from sample_factory.algorithms.appo.trajectories import NO_POLICY

EMPTY = -1  # nobody sits there, or: no guest plays this agent


@dataclass(frozen=True)
class Guests:
    """What a mapping needs to know of the league."""

    fraction: float
    num_policies: int
    seats: np.ndarray  # on the board: the member that sits there, negative while there is none


class LeagueMapping(PolicyMapping):
    """`actors[agent]` chooses the actions, `recorded[agent]` learns from them."""

    def __init__(self, guests: Guests, num_envs: int, agents_per_env: int, mix: bool, seed: int):
        self._guests = guests
        self._drawn_seats = np.full(num_envs * agents_per_env, EMPTY, np.int16)
        super().__init__(num_envs, agents_per_env, guests.num_policies, mix, seed)
        self._fixed = False
        self._seats = self._drawn_seats.copy()
        self.actors = self.policies.copy()
        self.recorded = self.policies.copy()
        self._tell_who_acts()

    def _draw(self, env_index: int) -> None:
        super()._draw(env_index)
        count, guests = self._agents_per_env, self._guests
        first = env_index * count
        self._drawn_seats[first : first + count] = EMPTY
        taken = np.flatnonzero(guests.seats >= 0)
        if len(taken) and self._rng.random() < guests.fraction:
            chosen = first + self._rng.choice(count, size=max(1, count // 2), replace=False)
            self._drawn_seats[chosen] = self._rng.choice(taken)

    def episodes_ended(self, agent_indices: Sequence[int]) -> bool:
        """See `PolicyMapping`."""
        super().episodes_ended(agent_indices)
        ended = list(agent_indices)
        self._seats[ended] = self._drawn_seats[ended]
        self._tell_who_acts()
        return True

    def _tell_who_acts(self) -> None:
        is_guest = self._seats >= 0
        self.actors[:] = np.where(is_guest, self._guests.num_policies + self._seats, self.policies)
        self.recorded[:] = np.where(is_guest, NO_POLICY, self.policies)

    def state_dict(self) -> dict[str, Any]:
        """See `PolicyMapping`."""
        seats = {"seats": self._seats.tolist(), "drawn_seats": self._drawn_seats.tolist()}
        return super().state_dict() | seats

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `PolicyMapping`."""
        super().load_state_dict(state)
        self._seats[:] = state["seats"]
        self._drawn_seats[:] = state["drawn_seats"]
        self._tell_who_acts()
