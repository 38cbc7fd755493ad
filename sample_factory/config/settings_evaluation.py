"""Settings that exist only when a trained policy is evaluated, shown or recorded.

Read by the evaluation package. Values an experiment's cfg.json holds beat the defaults here.
"""

from __future__ import annotations

import os

from sample_factory.config.setting import DefaultFactory, Setting, in_group

VIDEO_FORMATS = ("mp4", "gif", "npz")
TRAJECTORY_FORMATS = ("npz", "h5", "minari")

_CHOOSING = in_group(
    "evaluation",
    Setting(
        "model_path",
        str,
        None,
        "What to evaluate instead of --experiment: an experiment directory, a checkpoint file, the name of a "
        "directory in trained_policies/, or wandb:entity/project/run.",
    ),
    Setting(
        "iter_num",
        str,
        None,
        "Which checkpoint: latest, best, milestone, milestone:N (0 is the oldest), env:FRAMES, the number of "
        "an SGD step, or all (evaluate only); None does as --load_checkpoint_kind says.",
    ),
    Setting(
        "wandb_run_path",
        str,
        None,
        "Download the policy of this Weights & Biases run: entity/project/run, or entity/project/run:FILE.",
    ),
    Setting("wandb_download_replace", bool, False, "Download again what has been downloaded before."),
    Setting("task", str, None, "Accepted from scripts of other projects.", choices=("eval",)),
)

_SHOWING = in_group(
    "evaluation",
    Setting("policy_index", int, 0, "Which policy of the experiment to evaluate.", minimum=0),
    Setting("fps", int, 0, "Frames per second to show; 0 is as fast as possible.", minimum=0),
    Setting("no_render", bool, False, "Do not show the environment.", nargs="?"),
    Setting("render", bool, True, "Show the environment; False is --no_render.", nargs="?"),
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
)

_RECORDING = in_group(
    "evaluation",
    Setting(
        "record_to",
        str,
        DefaultFactory("<working directory>/../recs", lambda: os.path.join(os.getcwd(), os.pardir, "recs")),
        "Folder for recordings made by the environment itself (Doom demos, DMLab frames).",
    ),
    Setting(
        "save_video",
        bool,
        False,
        "Write a video; without a display enjoy does so anyway, unless --no_render.",
        nargs="?",
        aliases=("record",),
    ),
    Setting(
        "video_frames",
        int,
        1_000_000_000,
        "Frames in the video at most; -1 records one episode.",
        minimum=-1,
    ),
    Setting("video_name", str, None, "File name of the video; None uses replay.mp4."),
    Setting(
        "video_format", str, "mp4", "Format of videos whose name has no extension.", choices=VIDEO_FORMATS
    ),
    Setting("num_videos", int, 3, "Episodes that evaluate writes videos of with --save_video.", minimum=1),
    Setting("save_traj", bool, False, "Write every transition of the episodes that are played.", nargs="?"),
    Setting(
        "save_traj_dir",
        str,
        None,
        "Folder for trajectories, in a sub-folder per environment and experiment; None uses the evaluation's "
        "own.",
    ),
    Setting("save_traj_pixels", bool, False, "Also write a rendered picture of every step.", nargs="?"),
    Setting(
        "traj_format",
        str,
        "npz",
        "Format of trajectories: npz and h5 write one file per episode, minari one dataset.",
        choices=TRAJECTORY_FORMATS,
    ),
)

_MEASURING = in_group(
    "evaluation",
    Setting("max_num_frames", int, 1_000_000_000, "Stop after this many frames.", minimum=1),
    Setting(
        "max_num_episodes",
        int,
        1_000_000_000,
        "Stop after this many episodes; each environment plays a fixed share of them.",
        minimum=1,
        aliases=("num_trajs",),
    ),
    Setting("eval_name", str, None, "Folder for the results in eval/ of the experiment; None uses the time."),
    Setting(
        "output_format",
        str,
        "json",
        "What evaluate prints: json is one object of statistics, csv one line per episode.",
        choices=("json", "csv"),
    ),
    Setting(
        "sample_env_episodes",
        int,
        256,
        "Episodes that evaluate plays unless --max_num_episodes says otherwise.",
        minimum=1,
    ),
    Setting(
        "csv_folder_name",
        str,
        None,
        "Folder in the experiment directory for a table eval_p<policy>.csv of the episodes that evaluate "
        "played; None writes none.",
    ),
)

SETTINGS = _CHOOSING + _SHOWING + _RECORDING + _MEASURING
