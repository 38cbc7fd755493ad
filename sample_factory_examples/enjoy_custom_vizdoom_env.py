"""Shows a policy that `train_custom_vizdoom_env` trained.

    python -m sample_factory_examples.enjoy_custom_vizdoom_env --algo=APPO --env=doom_my_custom_env

What was registered for training must be registered here too.
"""

from __future__ import annotations

import sys

from sample_factory.algorithms.appo.enjoy_appo import play
from sample_factory.config.parsing import parse_args
from sample_factory_examples.train_custom_vizdoom_env import register_custom_components


def main() -> int:
    """Plays the episodes the command line asks for; returns the exit status."""
    register_custom_components()
    return play(parse_args(evaluation=True))


if __name__ == "__main__":
    sys.exit(main())
