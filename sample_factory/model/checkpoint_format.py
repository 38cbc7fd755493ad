"""The bytes of a checkpoint: a torch file of plain values with a checksum over all of them.

Used by the checkpoint store alone. Only tensors, numbers, strings, lists, tuples and dictionaries go in, so a
file can be read with `weights_only=True` and runs no code of whoever wrote it.
Invariant: `decode` returns exactly what `encode` was given, or raises `DamagedCheckpointError`.
"""

from __future__ import annotations

import hashlib
import io
from typing import Any

import torch
from torch import Tensor

FORMAT_VERSION = 1


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message is one sentence for the user."""


class DamagedCheckpointError(CheckpointError):
    """The file is not what was once written: truncated, empty, or changed."""


def encode(contents: dict[str, Any]) -> bytes:
    """The file for a dictionary of plain values.

    Raises:
        CheckpointError: there is a value in it that a safe reader would refuse.
    """
    plain = _plain(contents, "checkpoint")
    file = io.BytesIO()
    # Beside the contents, not around them: `torch.load(path)["model"]` is what people expect.
    torch.save({**plain, "format": FORMAT_VERSION, "checksum": _checksum((FORMAT_VERSION, plain))}, file)
    return file.getvalue()


def decode(data: bytes) -> dict[str, Any]:
    """The dictionary in a file, on the CPU.

    Raises:
        DamagedCheckpointError: the data is not what was once written.
        CheckpointError: the file is whole, but of another program or a later version of this one.
    """
    try:
        file = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        is_ours = isinstance(file, dict) and {"format", "checksum"} <= file.keys()
        contents = {key: value for key, value in file.items() if key not in ("format", "checksum")}
        is_intact = is_ours and _checksum((file["format"], contents)) == file["checksum"]
    except MemoryError:
        raise
    except Exception as error:
        # Damage can make the reader fail in any way, down to a KeyError; nothing else happens in there.
        raise DamagedCheckpointError(f"it cannot be read ({type(error).__name__}: {error})") from error
    if isinstance(file, dict) and "train_step" in file and not is_ours:
        raise CheckpointError("it was written by another version of Sample Factory and cannot be used here")
    if not is_intact:
        raise DamagedCheckpointError("its contents do not match its checksum")
    if file["format"] != FORMAT_VERSION:
        raise CheckpointError(f"its format is {file['format']}, this version reads format {FORMAT_VERSION}")
    return contents


def _plain(value: Any, name: str) -> Any:
    """A copy made of built-in containers and CPU tensors that own their memory."""
    if isinstance(value, Tensor):
        tensor = value.detach().cpu()
        # A view would be saved together with all of the memory that it is a view of.
        return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
    if isinstance(value, dict):
        return {_key(key, name): _plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{name}[{index}]") for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise CheckpointError(
        f"{name} is a {type(value).__name__}, which no checkpoint can hold: use tensors, numbers, strings, "
        "lists and dictionaries"
    )


def _key(key: Any, name: str) -> Any:
    if type(key) not in (str, int):
        raise CheckpointError(f"{name} has the key {key!r}, use strings or integers as keys")
    return key


def _checksum(value: Any) -> str:
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: Any) -> None:
    """Feeds types and lengths too, so that no two different values look the same to the digest."""
    digest.update(type(value).__name__.encode())
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, dict):
        digest.update(str(len(value)).encode())
        for key, item in value.items():
            _feed(digest, key)
            _feed(digest, item)
    elif isinstance(value, list | tuple):
        digest.update(str(len(value)).encode())
        for item in value:
            _feed(digest, item)
    else:
        text = repr(value).encode()
        digest.update(f"{len(text)}:".encode())
        digest.update(text)
