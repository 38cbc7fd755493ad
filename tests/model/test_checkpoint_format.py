"""A checkpoint's bytes give back what was saved, or say that they are damaged."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from sample_factory.model.checkpoint_format import CheckpointError, DamagedCheckpointError, decode, encode


def _contents() -> dict[str, Any]:
    return {
        "policy_version": 12,
        "rate": 0.25,
        "name": "p0",
        "nothing": None,
        "flag": True,
        "betas": (0.9, 0.999),
        "history": [1, [2.0, "three"]],
        "model": OrderedDict(
            weight=torch.arange(6.0).reshape(2, 3), count=torch.tensor(3, dtype=torch.int64)
        ),
        "optimizer": {
            0: {"step": torch.tensor(1.0, dtype=torch.float64), "mask": torch.tensor([True, False])}
        },
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
    }


def _assert_equal(one: Any, two: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)
    elif isinstance(one, dict):
        assert list(one) == list(two)
        for key in one:
            _assert_equal(one[key], two[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            _assert_equal(a, b)
    else:
        assert type(one) is type(two)
        assert one == two


def test_everything_that_was_saved_comes_back():
    _assert_equal(decode(encode(_contents())), _contents())


def test_an_optimizers_state_comes_back():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    restored = torch.optim.Adam([weight], lr=0.5)
    restored.load_state_dict(decode(encode({"optimizer": optimizer.state_dict()}))["optimizer"])
    _assert_equal(restored.state_dict(), optimizer.state_dict())


def test_the_file_is_readable_without_running_code():
    file = torch.load(io.BytesIO(encode(_contents())), weights_only=True)
    assert file["policy_version"] == 12


@pytest.mark.parametrize("value", [np.float64(1.0), np.zeros(2), {1, 2}, object(), 1j])
def test_values_that_a_safe_reader_refuses_are_refused_when_saving(value):
    with pytest.raises(CheckpointError, match=r"checkpoint\['deep'\]\[0\] is a .*: use tensors, numbers"):
        encode({"deep": [value]})


def test_a_view_is_saved_without_the_rest_of_its_memory():
    big = torch.zeros(100_000)
    assert len(encode({"view": big[:10]})) < 10_000


def test_saving_does_not_keep_the_graph_of_a_weight():
    weight = torch.nn.Parameter(torch.ones(2))
    assert not decode(encode({"weight": weight}))["weight"].requires_grad


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_any_flipped_byte_is_noticed_unless_it_changes_nothing():
    contents = {"version": 7, "name": "abc", "weight": torch.arange(40.0)}
    data = encode(contents)
    noticed = 0
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x41
        try:
            loaded = decode(bytes(changed))
        except DamagedCheckpointError:
            noticed += 1
        else:
            _assert_equal(loaded, contents)
    assert noticed > 300


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_damaged(fraction):
    data = encode(_contents())
    with pytest.raises(DamagedCheckpointError):
        decode(data[: int(len(data) * fraction)])


@pytest.mark.parametrize("data", [b"", b"\0" * 5000, b"not a checkpoint"])
def test_what_is_no_torch_file_is_damaged(data):
    with pytest.raises(DamagedCheckpointError, match="cannot be read"):
        decode(data)


def test_an_exchanged_tensor_is_noticed():
    file = torch.load(io.BytesIO(encode(_contents())), weights_only=True)
    file["model"]["weight"][0, 0] = 99.0
    changed = io.BytesIO()
    torch.save(file, changed)
    with pytest.raises(DamagedCheckpointError, match="checksum"):
        decode(changed.getvalue())


def test_a_file_of_another_program_is_not_called_damaged():
    foreign = io.BytesIO()
    torch.save({"train_step": 1, "env_steps": 2, "model": {}}, foreign)
    with pytest.raises(CheckpointError, match="another version of Sample Factory") as caught:
        decode(foreign.getvalue())
    assert not isinstance(caught.value, DamagedCheckpointError)
