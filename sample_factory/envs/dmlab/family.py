"""The DeepMind Lab family: `dmlab_30`, `dmlab_<name>` and `dmlab_<path of a level>`.

The registry reads `FAMILY`; the session asks it for the DMLab-30 score (`make_summaries_hook`). Flags and
defaults are v1's.

Invariant: neither gymnasium nor the simulator is imported before an environment is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_factory.config.config import experiment_dir
from sample_factory.config.setting import DefaultFactory, Setting
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.dmlab.levels import PREFIX, EnvSpec, env_spec, task_id_for
from sample_factory.envs.dmlab.score import Dmlab30Scores
from sample_factory.envs.extra_summaries import ExtraSummaries, NoExtraSummaries
from sample_factory.envs.registry import EnvFamily

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.dmlab.env import DmlabOptions
    from sample_factory.envs.dmlab.level_cache import LevelCache

DMLAB30_ENV = PREFIX + "30"
DEFAULT_FRAMESKIP = 4


def _cache_in_working_directory() -> str:
    return str(Path.cwd() / ".dmlab_cache")


SETTINGS = (
    Setting("res_w", int, 96, "Width of the image the agent sees, in pixels.", minimum=1),
    Setting("res_h", int, 72, "Height of the image the agent sees, in pixels.", minimum=1),
    Setting(
        "dmlab_throughput_benchmark",
        bool,
        False,
        "Measure speed: one fixed layout, random actions whatever the policy says, no instructions.",
    ),
    Setting(
        "dmlab_renderer",
        str,
        "software",
        "Draw on the CPU, or on the GPUs of --dmlab_gpus.",
        choices=("software", "hardware"),
    ),
    Setting(
        "dmlab_gpus",
        int,
        [0],
        "GPUs that draw, given to workers in turn (hardware renderer).",
        nargs="+",
        minimum=0,
    ),
    Setting(
        "dmlab30_dataset",
        str,
        "~/datasets/brady_konkle_oliva2008",
        "Folder of the images that the psychlab levels of DMLab-30 show.",
    ),
    Setting(
        "dmlab_with_instructions",
        bool,
        True,
        "Observe the level's instruction as numbers of words (observation INSTR).",
    ),
    Setting("dmlab_extended_action_set", bool, False, "15 actions with fine and coarse turns instead of 9."),
    Setting(
        "dmlab_use_level_cache",
        bool,
        True,
        "Keep compiled layouts on disk and play each once per experiment and policy.",
    ),
    Setting(
        "dmlab_level_cache_path",
        str,
        DefaultFactory("<working directory>/.dmlab_cache", _cache_in_working_directory),
        "Folder of compiled layouts; experiments may share one.",
    ),
    Setting(
        "dmlab_one_task_per_worker",
        bool,
        False,
        "All environments of a worker play the same level, so that none waits for a slower one.",
    ),
)

DEFAULTS: dict[str, Any] = {
    "encoder_type": "conv",
    "encoder_subtype": "convnet_impala",
    "encoder_custom": None,
    "hidden_size": 512,
    "obs_subtract_mean": 0.0,
    "obs_scale": 255.0,
    "env_frameskip": DEFAULT_FRAMESKIP,
    "record_to": None,
}


def make_dmlab_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One level of what the name stands for; which one depends on where the environment lives."""
    from gymnasium.wrappers import HumanRendering

    from sample_factory.envs.dmlab.env import DmlabEnv, EnlargedRender
    from sample_factory.envs.recording import Recording

    options = dmlab_options(env_spec(name), cfg, env_config)
    cache = level_cache(cfg) if cfg.dmlab_use_level_cache else None
    in_window = render_mode == "human"
    env: Any = DmlabEnv(options, cache, "rgb_array" if in_window else render_mode)
    if cfg.get("record_to") and (env_config is None or env_config.env_id == 0):
        env = Recording(env, cfg.record_to)
    return HumanRendering(EnlargedRender(env)) if in_window else env


def dmlab_options(spec: EnvSpec, cfg: Config, env_config: EnvConfig | None) -> DmlabOptions:
    """What the settings say about one environment."""
    from sample_factory.envs.dmlab.env import DmlabOptions
    from sample_factory.envs.dmlab.simulator import LabOptions

    place = env_config or EnvConfig(worker_index=0, vector_index=0, env_id=0)
    task_id = task_id_for(spec, env_config, cfg.dmlab_one_task_per_worker)
    lab = LabOptions(
        level_path=spec.levels[task_id],
        width=cfg.res_w,
        height=cfg.res_h,
        renderer=cfg.dmlab_renderer,
        gpu_index=cfg.dmlab_gpus[place.worker_index % len(cfg.dmlab_gpus)],
        # A shell leaves the tilde of --dmlab30_dataset=~/... as it is.
        dataset_path=str(Path(cfg.dmlab30_dataset).expanduser()),
        with_instructions=cfg.dmlab_with_instructions and not cfg.dmlab_throughput_benchmark,
        extra=spec.lab_options,
    )
    return DmlabOptions(
        lab=lab,
        task_id=task_id,
        frameskip=cfg.env_frameskip or DEFAULT_FRAMESKIP,
        extended_actions=cfg.dmlab_extended_action_set,
        channels_last=cfg.pixel_format == "HWC",
        throughput_benchmark=cfg.dmlab_throughput_benchmark,
        seed=(cfg.get("seed") or 0, place.env_id),
    )


def level_cache(cfg: Config) -> LevelCache:
    """The cache of compiled layouts that the settings name."""
    from sample_factory.envs.dmlab.level_cache import LevelCache

    return LevelCache(Path(cfg.dmlab_level_cache_path).expanduser(), experiment_dir(cfg))


def make_summaries_hook(cfg: Config) -> ExtraSummaries:
    """The DMLab-30 score for the whole benchmark; single levels add nothing."""
    return Dmlab30Scores() if cfg.env == DMLAB30_ENV else NoExtraSummaries()


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_dmlab_env,
    settings=SETTINGS,
    defaults=DEFAULTS,
    extra_summaries=make_summaries_hook,
)
