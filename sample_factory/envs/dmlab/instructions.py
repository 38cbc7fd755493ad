"""Turns the instruction a level speaks into a fixed row of word numbers.

The environment writes the row into its `INSTR` observation; the `dmlab_instructions` encoder embeds it. Words
are hashed into a vocabulary of fixed size, so that no word list has to be shipped or kept with a policy.

Invariant: 0 means "no word"; a word's number depends on its text alone, in every process and every year.
"""

from __future__ import annotations

import hashlib

import numpy as np

VOCABULARY_SIZE = 1000
MAX_WORDS = 16


def word_bucket(word: str, vocabulary_size: int = VOCABULARY_SIZE) -> int:
    """The number of a word, in 1..vocabulary_size-1."""
    digest = hashlib.md5(word.encode("utf-8"), usedforsecurity=False).hexdigest()
    return int(digest, 16) % (vocabulary_size - 1) + 1


def encode_instruction(text: str) -> np.ndarray:
    """Word numbers `int32[16]`, padded with 0; words after the sixteenth are left out."""
    encoded = np.zeros(MAX_WORDS, np.int32)
    words = text.split()[:MAX_WORDS]
    encoded[: len(words)] = [word_bucket(word) for word in words]
    return encoded
