"""Encoders of two families whose observations are more than an image; chosen with `--encoder_custom`.

VizDoom adds game variables as numbers, DMLab adds an instruction as words. Both keep the standard encoder for
the picture, so `--encoder_type` and `--encoder_subtype` still apply to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from sample_factory.model.encoders import EncoderBase, make_main_encoder
from sample_factory.model.mlp import Mlp

if TYPE_CHECKING:
    from sample_factory.config.config import Config

MEASUREMENTS_KEY = "measurements"
MEASUREMENTS_LAYERS = (128, 128)

INSTRUCTIONS_KEY = "INSTR"
VOCABULARY_SIZE = 1000
PADDING_WORD = 0
WORD_SIZE = 20
SENTENCE_SIZE = 64


class VizdoomEncoder(EncoderBase):
    """Picture, and the game variables where the environment gives them."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict) -> None:
        super().__init__(cfg, obs_space)
        self.picture = make_main_encoder(cfg, obs_space)
        self.byte_images, self.works_in_pieces = self.picture.byte_images, self.picture.works_in_pieces
        self.encoder_out_size = self.picture.encoder_out_size
        self.has_measurements = MEASUREMENTS_KEY in obs_space.spaces
        if self.has_measurements:
            num_measurements = spaces.flatdim(obs_space[MEASUREMENTS_KEY])
            self.measurements = Mlp(cfg, num_measurements, MEASUREMENTS_LAYERS)
            self.encoder_out_size += MEASUREMENTS_LAYERS[-1]

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Both parts side by side."""
        picture: Tensor = self.picture(obs_dict)
        if not self.has_measurements:
            return picture
        return torch.cat((picture, self.measurements(obs_dict[MEASUREMENTS_KEY].float())), dim=1)


class DmlabInstructionsEncoder(EncoderBase):
    """Picture and instruction; the words `[B, 16]` are read by an LSTM up to the first padding."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict) -> None:
        super().__init__(cfg, obs_space)
        self.picture = make_main_encoder(cfg, obs_space)
        self.byte_images, self.works_in_pieces = self.picture.byte_images, self.picture.works_in_pieces
        self.words = nn.Embedding(VOCABULARY_SIZE, WORD_SIZE, padding_idx=PADDING_WORD)
        self.sentence = nn.LSTM(WORD_SIZE, SENTENCE_SIZE, batch_first=True)
        self.encoder_out_size = self.picture.encoder_out_size + SENTENCE_SIZE

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Both parts side by side."""
        words = obs_dict[INSTRUCTIONS_KEY].long()
        # An empty instruction still needs one step; the padding word's embedding is zero.
        lengths = (words != PADDING_WORD).sum(dim=1).clamp(min=1)
        packed = pack_padded_sequence(
            self.words(words), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (last_outputs, _) = self.sentence(packed)
        return torch.cat((self.picture(obs_dict), last_outputs[-1]), dim=1)
