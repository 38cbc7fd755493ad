"""Shows a policy that `train_custom_env_custom_model` trained.

    python -m sample_factory_examples.enjoy_custom_env_custom_model --algo=APPO --env=my_custom_env_v1

What was registered for training must be registered here too.
"""

from __future__ import annotations

import sys

from sample_factory.algorithms.appo.enjoy_appo import play
from sample_factory_examples.train_custom_env_custom_model import (
    custom_parse_args,
    register_custom_components,
)


def main() -> int:
    """Plays the episodes the command line asks for; returns the exit status."""
    register_custom_components()
    return play(custom_parse_args(evaluation=True))


if __name__ == "__main__":
    sys.exit(main())
