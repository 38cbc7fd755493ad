"""The engine's own players: who they are, how strong they are, and how they are called into a match.

The host of a match calls them in at the start of every episode. The engine reads who exists from a file when
it starts; ours defines `BOT_<difficulty>_<index>` for difficulties 10 to 100; the curriculum picks from them.

Invariant: `BotRoster.commands` never names a bot twice, as the engine admits each one once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DIFFICULTIES = range(10, 101, 10)
BOTS_PER_DIFFICULTY = 10

START_DIFFICULTY = 20
MAX_DIFFICULTY = 150  # means "as strong as can be, for good": no curriculum
DIFFICULTY_STEP = 10
DIFFICULTY_STD = 10


def bot_definitions() -> str:
    """The engine's file of bots: every skill of `BOT_<difficulty>_<index>` is its difficulty in per cent."""
    return "\n".join(
        _definition(f"BOT_{difficulty}_{index}", difficulty)
        for difficulty in DIFFICULTIES
        for index in range(BOTS_PER_DIFFICULTY)
    )


def _definition(name: str, difficulty: int) -> str:
    skills = "".join(f"    {skill} {difficulty}\n" for skill in ("aiming", "perfection", "reaction", "isp"))
    return f'{{\n    name {name}\n{skills}    color "40 cf 00"\n    skin base\n}}\n'


@dataclass
class BotRoster:
    """How many bots a match has, and around which difficulty they are drawn."""

    count: int
    difficulty: float = START_DIFFICULTY

    def commands(self, rng: np.random.Generator) -> list[str]:
        """Console commands for the host that replace all bots by newly drawn ones."""
        names = [f" {self._draw(index, rng)}" for index in range(min(self.count, BOTS_PER_DIFFICULTY))]
        anybody = [""] * (self.count - len(names))
        return ["removebots", *(f"addbot{name}" for name in names + anybody)]

    def _draw(self, index: int, rng: np.random.Generator) -> str:
        drawn = DIFFICULTY_STEP * round(rng.normal(self.difficulty, DIFFICULTY_STD) / DIFFICULTY_STEP)
        return f"BOT_{min(max(drawn, DIFFICULTIES[0]), DIFFICULTIES[-1])}_{index}"
