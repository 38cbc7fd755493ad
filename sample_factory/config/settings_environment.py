"""Settings of environments in general, declared for every algorithm and every family.

Read by the environment families and the wrappers. Flags of one family alone are declared by that family.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group

SETTINGS = in_group(
    "environment",
    Setting(
        "env_frameskip",
        int,
        None,
        "Frames each action is repeated for; None leaves it to the family.",
        minimum=1,
    ),
    Setting(
        "env_framestack", int, 4, "Frames stacked into one observation, by families that stack.", minimum=1
    ),
    Setting(
        "pixel_format",
        str,
        "CHW",
        "Layout of image observations: channels first (CHW) or last (HWC).",
        choices=("CHW", "HWC"),
    ),
)
