"""What the numbers of actions and words mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.envs.dmlab.actions import action_set
from sample_factory.envs.dmlab.instructions import encode_instruction, word_bucket


def test_the_basic_set_has_these_nine_actions_in_this_order():
    assert action_set(extended=False).tolist() == [
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, -1, 0, 0, 0],
        [0, 0, -1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [-20, 0, 0, 0, 0, 0, 0],
        [20, 0, 0, 0, 0, 0, 0],
        [-20, 0, 0, 1, 0, 0, 0],
        [20, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
    ]


def test_the_extended_set_has_these_fifteen_actions_in_this_order():
    assert action_set(extended=True).tolist() == [
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, -1, 0, 0, 0],
        [0, 0, -1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [-10, 0, 0, 0, 0, 0, 0],
        [10, 0, 0, 0, 0, 0, 0],
        [-60, 0, 0, 0, 0, 0, 0],
        [60, 0, 0, 0, 0, 0, 0],
        [0, 10, 0, 0, 0, 0, 0],
        [0, -10, 0, 0, 0, 0, 0],
        [-10, 0, 0, 1, 0, 0, 0],
        [10, 0, 0, 1, 0, 0, 0],
        [-60, 0, 0, 1, 0, 0, 0],
        [60, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
    ]


@pytest.mark.parametrize("extended", [False, True])
def test_actions_have_the_only_type_the_simulator_takes(extended: bool):
    assert action_set(extended).dtype == np.intc


@pytest.mark.parametrize(
    ("word", "bucket"),
    [
        ("a cupful of liquid that was almost, but not quite, entirely unlike tea", 37),
        ("aaabbbccc", 28),
        ("12313123132", 28),
        ("RL", 24),
        ("dmlab", 35),
    ],
)
def test_words_fall_into_the_published_buckets(word: str, bucket: int):
    assert word_bucket(word, vocabulary_size=42) == bucket


@given(st.text())
def test_no_word_is_mistaken_for_padding(word: str):
    assert 1 <= word_bucket(word) <= 999


def test_an_instruction_is_its_words_followed_by_zeros():
    encoded = encode_instruction("  pick up\tthe ball ")
    words = [word_bucket(word) for word in ("pick", "up", "the", "ball")]
    assert encoded.tolist() == words + [0] * 12
    assert encoded.dtype == np.int32


def test_no_instruction_is_all_zeros():
    assert encode_instruction("").tolist() == [0] * 16


def test_words_after_the_sixteenth_are_left_out():
    words = [f"w{index}" for index in range(20)]
    assert encode_instruction(" ".join(words)).tolist() == [word_bucket(word) for word in words[:16]]
