from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.algorithms.appo.messages import (
    ActionRequest,
    ActionsReady,
    Message,
    RepeatRequests,
    SlotsFreed,
    TrajectoryReady,
    decode,
    encode,
    next_tick,
)

numbers = st.integers(0, 2**31 - 1)
messages = st.one_of(
    st.builds(ActionRequest, numbers, numbers, numbers),
    st.builds(ActionsReady, numbers, numbers, numbers),
    st.builds(TrajectoryReady, numbers),
    st.builds(SlotsFreed),
    st.builds(RepeatRequests, numbers),
)


@given(message=messages)
def test_a_message_survives_being_a_record(message: Message) -> None:
    decoded = decode(encode(message))
    assert decoded == message
    assert type(decoded) is type(message)


def test_an_unknown_record_is_refused() -> None:
    with pytest.raises(ValueError, match="kind 99"):
        decode((99, 0, 0, 0))


def test_ticks_fit_a_record_for_ever() -> None:
    assert next_tick(0) == 1
    assert next_tick(2**31 - 2) == 2**31 - 1
    assert next_tick(2**31 - 1) == 0
