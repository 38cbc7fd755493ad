"""Every message of the engine, on one page.

Data never travels: these are four small integers each. Two messages per vector step when inference runs in
policy workers, none when it runs in the rollout worker; two per trajectory.

    rollout worker --ActionRequest--> policy worker     look at my split's row and act
    policy worker  --ActionsReady---> rollout worker    the actions stand in the store
    rollout worker --TrajectoryReady-> batcher          this slot is yours to read
    batcher        --SlotsFreed-----> rollout worker    slots came free while you were waiting for some
    session        --RepeatRequests-> rollout worker    a policy worker was replaced; ask again
"""

from __future__ import annotations

from typing import NamedTuple

from sample_factory.processes.channels import Record

_ACTION_REQUEST, _ACTIONS_READY, _TRAJECTORY_READY, _SLOTS_FREED, _REPEAT_REQUESTS = range(1, 6)


class ActionRequest(NamedTuple):
    """The split's agents of the receiving policy need actions for the row that the board tells."""

    worker_id: int
    split_id: int
    tick: int  # counts the split's requests: an answer to an older one is no answer


class ActionsReady(NamedTuple):
    """Actions of one policy's agents in this split have been written into the store."""

    split_id: int
    policy_id: int
    tick: int


class TrajectoryReady(NamedTuple):
    """A slot is full and awaited by the receiving policy's batcher."""

    slot: int


class SlotsFreed(NamedTuple):
    """Wakes a rollout worker that waits for slots or for a paused policy."""


class RepeatRequests(NamedTuple):
    """The requests that this policy's worker had not answered are lost; send them again."""

    policy_id: int


Message = ActionRequest | ActionsReady | TrajectoryReady | SlotsFreed | RepeatRequests


_TICK_MASK = 0x7FFFFFFF


def next_tick(tick: int) -> int:
    """The tick after this one; they start anew before they outgrow a record's field."""
    return (tick + 1) & _TICK_MASK


def encode(message: Message) -> Record:
    """The record of a message."""
    match message:
        case ActionRequest(worker_id, split_id, tick):
            return _ACTION_REQUEST, worker_id, split_id, tick
        case ActionsReady(split_id, policy_id, tick):
            return _ACTIONS_READY, split_id, policy_id, tick
        case TrajectoryReady(slot):
            return _TRAJECTORY_READY, slot, 0, 0
        case SlotsFreed():
            return _SLOTS_FREED, 0, 0, 0
        case RepeatRequests(policy_id):
            return _REPEAT_REQUESTS, policy_id, 0, 0


def decode(record: Record) -> Message:
    """The message of a record."""
    kind, a, b, c = record
    if kind == _ACTION_REQUEST:
        return ActionRequest(a, b, c)
    if kind == _ACTIONS_READY:
        return ActionsReady(a, b, c)
    if kind == _TRAJECTORY_READY:
        return TrajectoryReady(a)
    if kind == _SLOTS_FREED:
        return SlotsFreed()
    if kind == _REPEAT_REQUESTS:
        return RepeatRequests(a)
    raise ValueError(f"unknown message kind {kind}")
