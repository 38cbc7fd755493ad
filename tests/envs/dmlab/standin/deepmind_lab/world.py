"""The world behind the stand-in: a walled grid made from a seed, an agent in it, what it sees.

Used by the stand-in's `Lab` alone. Movement, rewards and pixels follow from the seed and the actions, so two
instances with the same seed and the same actions show the same pictures.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

SIZE = 9
GOOD, BAD = 2, 3
_SPEED = 0.06
_RADIANS_PER_PIXEL = 0.01
_FIELD_OF_VIEW = math.pi / 2
_RAY_STEP = 0.05
_RAY_STEPS = 160
_INSTRUCTIONS = (
    "pick up the red ball",
    "go to the left of the tall blue ladder",
    "how many green suitcases are there in the room if you do not count the one behind the door",
)


@dataclass
class Agent:
    x: float
    y: float
    heading: float = 0.0
    pitch: float = 0.0


def layout_text(level: str, seed: int) -> str:
    """The generated layout as text; this is what a compiled level contains."""
    cells = _make_cells(level, seed)
    return "\n".join("".join(".#gb"[cell] for cell in row) for row in cells)


def instruction_for(level: str, seed: int) -> str:
    return _INSTRUCTIONS[seed % len(_INSTRUCTIONS)] if "language_" in level else ""


def _rng(*parts: object) -> np.random.Generator:
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest[:16], np.uint32))


def _make_cells(level: str, seed: int) -> np.ndarray:
    rng = _rng("layout", level, seed)
    cells = np.zeros((SIZE, SIZE), np.int8)
    cells[rng.random((SIZE, SIZE)) < 0.15] = 1
    cells[0, :] = cells[-1, :] = cells[:, 0] = cells[:, -1] = 1
    cells[SIZE // 2, SIZE // 2] = 0
    free = np.argwhere(cells == 0)
    free = free[(free != SIZE // 2).any(axis=1)]
    for kind, position in zip([GOOD] * 8 + [BAD] * 4, rng.permutation(free), strict=False):
        cells[tuple(position)] = kind
    return cells


class World:
    def __init__(self, level: str, seed: int) -> None:
        self._cells = _make_cells(level, seed)
        self._rng = _rng("play", level, seed)
        self._tint = _rng("tint", level).integers(60, 200, 3)
        self.agent = Agent(SIZE / 2, SIZE / 2)
        self.instruction = instruction_for(level, seed)

    def advance(self, action: np.ndarray) -> float:
        """One frame; returns its reward."""
        yaw, pitch, strafe, forward, fire, _, _ = (int(part) for part in action)
        agent = self.agent
        agent.heading = (agent.heading + yaw * _RADIANS_PER_PIXEL) % (2 * math.pi)
        agent.pitch = min(30.0, max(-30.0, agent.pitch + pitch * 0.1))
        dx = math.cos(agent.heading) * forward - math.sin(agent.heading) * strafe
        dy = math.sin(agent.heading) * forward + math.cos(agent.heading) * strafe
        # One axis after the other, so that agents slide along walls.
        if self._cells[int(agent.y), int(agent.x + dx * _SPEED)] != 1:
            agent.x += dx * _SPEED
        if self._cells[int(agent.y + dy * _SPEED), int(agent.x)] != 1:
            agent.y += dy * _SPEED
        return self._pick_up() - (0.01 if fire else 0.0)

    def _pick_up(self) -> float:
        cell = int(self.agent.y), int(self.agent.x)
        kind = int(self._cells[cell])
        if kind not in (GOOD, BAD):
            return 0.0
        self._cells[cell] = 0
        free = np.argwhere(self._cells == 0)
        self._cells[tuple(free[self._rng.integers(len(free))])] = kind
        return 10.0 if kind == GOOD else -2.0

    def picture(self, width: int, height: int) -> np.ndarray:
        """What the agent sees, [height, width, 3]: walls and objects by casting one ray per column."""
        agent = self.agent
        angles = agent.heading + np.linspace(-0.5, 0.5, width) * _FIELD_OF_VIEW
        reach = np.arange(1, _RAY_STEPS + 1)[:, None] * _RAY_STEP  # [steps, 1]
        x = np.clip(agent.x + np.cos(angles) * reach, 0, SIZE - 0.01).astype(int)
        y = np.clip(agent.y + np.sin(angles) * reach, 0, SIZE - 0.01).astype(int)
        hit = self._cells[y, x]  # [steps, width]
        # An object is not seen from inside the cell it lies in.
        hit = np.where((x == int(agent.x)) & (y == int(agent.y)), 0, hit)
        first = (hit > 0).argmax(axis=0)
        distance = reach[first, 0] * np.cos(angles - agent.heading)
        kind = hit[first, np.arange(width)]
        colours = np.stack([self._tint, [30, 220, 30], [220, 30, 30]])[np.clip(kind, 1, 3) - 1]
        shade = 1.0 / (1.0 + 0.4 * distance)
        wall = (colours * shade[:, None]).astype(np.uint8)  # [width, 3]
        rows = np.arange(height)[:, None] - height / 2 - agent.pitch
        is_wall = np.abs(rows) < height * 0.5 / np.maximum(distance, 0.3)  # [height, width]
        background = np.where(rows < 0, 90, 50).astype(np.uint8)
        return np.where(is_wall[:, :, None], wall[None], background[:, :, None]).astype(np.uint8)
