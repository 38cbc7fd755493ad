"""Settings that exist only when a trained policy is evaluated, shown or recorded.

Read by the evaluation package. Values an experiment's cfg.json holds beat the defaults here.
"""

from __future__ import annotations

import os

from sample_factory.config.setting import DefaultFactory, Setting, in_group

_SHOWING = in_group(
    "evaluation",
    Setting("policy_index", int, 0, "Which policy of the experiment to evaluate.", minimum=0),
    Setting("fps", int, 0, "Frames per second to show; 0 is as fast as possible.", minimum=0),
    Setting("no_render", bool, False, "Do not show the environment.", nargs="?"),
    Setting(
        "render_action_repeat",
        int,
        None,
        "Frames each action is repeated for while showing; None uses the training value.",
        minimum=1,
    ),
    Setting(
        "eval_env_frameskip",
        int,
        None,
        "Frame skip of the evaluated environment, for smoother videos; None uses the training value.",
        minimum=1,
    ),
    Setting(
        "continuous_actions_sample",
        bool,
        True,
        "Continuous actions: sample, or take the mean with False.",
    ),
    Setting("eval_deterministic", bool, False, "Always take the most likely action."),
)

_RECORDING = in_group(
    "evaluation",
    Setting(
        "record_to",
        str,
        DefaultFactory("<working directory>/../recs", lambda: os.path.join(os.getcwd(), os.pardir, "recs")),
        "Folder for recordings made by the environment itself (Doom demos, DMLab frames).",
    ),
    Setting("save_video", bool, False, "Write a video into the experiment directory.", nargs="?"),
    Setting(
        "video_frames",
        int,
        1_000_000_000,
        "Frames in the video at most; -1 records one episode.",
        minimum=-1,
    ),
    Setting("video_name", str, None, "File name of the video; None uses replay.mp4."),
)

_MEASURING = in_group(
    "evaluation",
    Setting("max_num_frames", int, 1_000_000_000, "Stop after this many frames.", minimum=1),
    Setting("max_num_episodes", int, 1_000_000_000, "Stop after this many episodes.", minimum=1),
    Setting(
        "sample_env_episodes",
        int,
        256,
        "Episodes played by the fast parallel evaluation.",
        minimum=1,
    ),
    Setting(
        "csv_folder_name",
        str,
        None,
        "Folder in the experiment directory for the table of the parallel evaluation; None writes no table.",
    ),
)

SETTINGS = _SHOWING + _RECORDING + _MEASURING
