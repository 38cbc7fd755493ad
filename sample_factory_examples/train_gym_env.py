"""Trains on any gymnasium environment: the name is `gym_` and gymnasium's id.

    python -m sample_factory_examples.train_gym_env --algo=APPO --env=gym_CartPole-v1 --experiment=cartpole

The family `gym_` is built in, so there is nothing to register; this is all that a training script needs.
"""

from __future__ import annotations

import sys

from sample_factory.config.parsing import parse_args
from sample_factory.run_algorithm import run_algorithm


def main() -> int:
    """Trains as the command line says; returns the exit status."""
    return run_algorithm(parse_args())


if __name__ == "__main__":
    sys.exit(main())
