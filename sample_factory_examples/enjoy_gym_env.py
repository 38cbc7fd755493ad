"""Shows a policy that `train_gym_env` trained.

python -m sample_factory_examples.enjoy_gym_env --algo=APPO --env=gym_CartPole-v1 --experiment=cartpole

The experiment's own cfg.json says how it was trained; flags typed here win over it.
"""

from __future__ import annotations

import sys

from sample_factory.algorithms.appo.enjoy_appo import play
from sample_factory.config.parsing import parse_args


def main() -> int:
    """Plays the episodes the command line asks for; returns the exit status."""
    return play(parse_args(evaluation=True))


if __name__ == "__main__":
    sys.exit(main())
