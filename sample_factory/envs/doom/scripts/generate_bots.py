"""Prints the file of bots our matches are played with, for engines started by hand.

    python -m sample_factory.envs.doom.scripts.generate_bots > bots.cfg

Environments write it themselves.
"""

from __future__ import annotations

from sample_factory.envs.doom.bots import bot_definitions


def main() -> None:
    """Prints the definitions."""
    print(bot_definitions())  # noqa: T201


if __name__ == "__main__":
    main()
