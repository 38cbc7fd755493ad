from __future__ import annotations

import numpy as np
import pytest

from sample_factory.processes.child_call import ChildCallError, call_in_child
from tests.processes import children

pytestmark = pytest.mark.processes


def test_the_result_comes_back() -> None:
    assert call_in_child(children.add, 2, 3, timeout=60) == 5


def test_a_result_larger_than_a_pipe_comes_back() -> None:
    result = call_in_child(children.make_big_array, 200_000, timeout=60)
    assert np.array_equal(result, np.arange(200_000))


def test_an_exception_comes_back_as_the_cause_with_its_trace() -> None:
    with pytest.raises(ChildCallError, match="the environment is not to be had") as caught:
        call_in_child(children.raise_value_error, timeout=60)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "raise_value_error" in caught.value.trace


def test_an_exception_that_can_not_be_unpickled_is_told_in_words() -> None:
    with pytest.raises(ChildCallError, match="TwoArgumentsError: nothing in here") as caught:
        call_in_child(children.raise_two_arguments, timeout=60)
    assert "raise_two_arguments" in caught.value.trace


def test_a_result_that_does_not_pickle_is_an_error() -> None:
    with pytest.raises(ChildCallError, match="lambda"):
        call_in_child(children.return_a_lambda, timeout=60)


def test_a_crash_is_an_error_that_tells_the_exit_code() -> None:
    with pytest.raises(ChildCallError, match="the process of crash ended with exit code 3"):
        call_in_child(children.crash, timeout=60)


def test_a_call_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(ChildCallError, match="sleep_for_ever did not finish within") as caught:
        call_in_child(children.sleep_for_ever, timeout=2.0)
    assert "in sleep_for_ever" in caught.value.trace


def test_a_crash_in_a_library_comes_with_its_stack() -> None:
    with pytest.raises(ChildCallError, match="ended with exit code -11") as caught:
        call_in_child(children.follow_a_null_pointer, timeout=60)
    assert "in follow_a_null_pointer" in caught.value.trace
