"""Settings every algorithm has: what is run, on which environment, and where its files go.

Read by the parser's first pass (algorithm and environment decide which other flags exist) and by whoever
needs the experiment directory. Only settings that the dummy sampler understands too belong here.
"""

from __future__ import annotations

import os

from sample_factory.config.setting import DefaultFactory, Setting, in_group

ALGORITHMS = ("APPO", "DUMMY_SAMPLER")

# The first pass reads these alone.
IDENTITY = in_group(
    "experiment",
    Setting(
        "algo",
        str,
        "APPO",
        "What to run: APPO trains, DUMMY_SAMPLER measures how fast the environment can be stepped.",
        choices=ALGORITHMS,
    ),
    Setting("env", str, None, "Environment, with the prefix of its family, for example doom_basic."),
    Setting(
        "experiment",
        str,
        "default_experiment",
        "Name of the experiment and of its directory; an existing one is resumed.",
    ),
    Setting(
        "experiments_root",
        str,
        None,
        "Folder inside --train_dir that holds the experiment directory; the runner sets it.",
    ),
)

LOCATION = in_group(
    "experiment",
    Setting(
        "train_dir",
        str,
        DefaultFactory("<working directory>/train_dir", lambda: os.path.join(os.getcwd(), "train_dir")),
        "Folder in which all experiments live.",
    ),
    Setting(
        "device",
        str,
        "gpu",
        "Where networks are trained and evaluated; without CUDA gpu falls back to cpu.",
        choices=("gpu", "cpu"),
    ),
)

SETTINGS = IDENTITY + LOCATION
