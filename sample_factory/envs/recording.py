"""Records episodes to disk: the frames as PNG files and the actions as JSON.

The Doom and DeepMind Lab families wrap the first environment of a session with `Recording` when `--record_to`
is given; environments of one's own may do the same. Directories are called `ep_000_p0`, and get the episode's
reward as a suffix once it is known: `ep_000_p0_r12.50`.

Invariant: a directory with a reward in its name is complete.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sample_factory.envs.frame_wrappers import MAX_CHANNELS
from sample_factory.envs.wrappers import EnvWrapper

_PNG_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> gray, gray+alpha, RGB, RGBA


class Recording(EnvWrapper):
    """Writes one directory per episode.

    Args:
        env: observes pictures (bare or under `obs`), or renders them with `render_mode="rgb_array"`.
        record_to: where the directories go; also set as `record_to` on the raw environment if it has that
            attribute, for simulators that write their own demo files.
        player: which player this is, for the names.
    """

    def __init__(self, env: gymnasium.Env, record_to: str | Path, player: int = 0):
        super().__init__(env)
        self._root, self._player = Path(record_to).expanduser(), player
        self._episode = -1
        self._directory: Path | None = None
        self._actions: list[Any] = []
        self._reward = 0.0
        if hasattr(env.unwrapped, "record_to"):
            env.unwrapped.record_to = str(self._root)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Finishes the recording of the last episode and starts the next."""
        self._finish()
        obs, info = self.env.reset(seed=seed, options=options)
        self._episode += 1
        self._directory = self._root / f"ep_{self._episode:03d}_p{self._player}"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._actions, self._reward = [], 0.0
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps, and records the action and the frame it led to."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if self._directory is not None:
            frame = _frame(obs)
            picture = frame if frame is not None else self.env.render()
            if isinstance(picture, np.ndarray):
                (self._directory / f"{len(self._actions):05d}.png").write_bytes(png(picture))
            self._actions.append(_plain(action))
            self._reward += float(reward)
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        """Finishes the last recording and closes the environment."""
        self._finish()
        super().close()

    def _finish(self) -> None:
        if self._directory is None:
            return
        (self._directory / "actions.json").write_text(json.dumps(self._actions))
        named = self._directory.with_name(f"{self._directory.name}_r{self._reward:.2f}")
        self._directory.rename(named)
        self._directory = None


def png(picture: np.ndarray) -> bytes:
    """A picture [H, W] or [H, W, channels] of `uint8` as a PNG file."""
    rows = picture if picture.ndim == 3 else picture[:, :, None]
    height, width, channels = rows.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLOUR_TYPES[channels], 0, 0, 0)
    # Each line starts with the number of its filter; 0 is none.
    lines = np.zeros((height, 1 + width * channels), dtype=np.uint8)
    lines[:, 1:] = rows.reshape(height, -1)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 3)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _frame(obs: Any) -> np.ndarray | None:
    """The picture in an observation in HWC order, or None."""
    picture = obs.get("obs") if isinstance(obs, dict) else obs
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim not in (2, 3):
        return None
    if picture.ndim == 3 and picture.shape[2] > MAX_CHANNELS:
        picture = picture.transpose(1, 2, 0)
    return picture if picture.ndim == 2 or picture.shape[2] <= MAX_CHANNELS else None


def _plain(action: Any) -> Any:
    """An action as JSON can hold it."""
    if isinstance(action, tuple | list):
        return [_plain(part) for part in action]
    return action.tolist() if isinstance(action, np.ndarray | np.generic) else action
