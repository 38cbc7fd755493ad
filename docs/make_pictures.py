"""Makes the pictures of the environments guide: what a policy of each family sees or a person would.

Files go to docs/images.

    python docs/make_pictures.py                     the families of the extra `all`
    python docs/make_pictures.py nethack             one by name, in the Python environment it needs
    PYTHONPATH=tests/envs/dmlab/standin python docs/make_pictures.py dmlab
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import is_multiagent
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import dict_obs
from sample_factory.envs.recording import png

IMAGES = Path(__file__).parent / "images"
PICTURES = {  # file name -> environment, random steps before the picture
    "gym": ("gym_CartPole-v1", 10),
    "doom": ("doom_health_gathering_supreme", 60),
    "atari": ("atari_breakout", 120),
    "mujoco": ("mujoco_halfcheetah", 40),
    "minigrid": ("MiniGrid-FourRooms-v0", 5),
    "pettingzoo": ("pettingzoo_butterfly.pistonball_v6", 20),
    "envpool": ("envpool_Pong-v5", 200),
}
APART = {  # need a Python environment of their own, or a module that is no package
    "nethack": ("nethack_score", 30),
    "procgen": ("procgen_coinrun", 30),
    "dmcontrol": ("dmcontrol_cheetah_run", 40),
    "dmlab": ("dmlab_collect_good_objects", 3),
}
HEIGHT = 240


def picture_of(env_name: str, steps: int) -> np.ndarray:
    cfg = parse_args([f"--env={env_name}", "--algo=APPO"])
    if env_name.startswith("dmlab_"):  # large enough to look at, and nothing is written down
        cfg.res_w, cfg.res_h, cfg.dmlab_use_level_cache = 320, 240, False
    env = make_env(env_name, cfg, None, render_mode="rgb_array")
    try:
        env.action_space.seed(0)
        obs, _ = env.reset(seed=0)
        for _ in range(steps):
            actions: Any = env.action_space.sample()
            if is_multiagent(env):
                actions = [env.action_space.sample() for _ in range(env.num_agents)]
            obs, _, terminated, truncated, _ = env.step(actions)
            if not is_multiagent(env) and (terminated or truncated):
                obs, _ = env.reset()
        frame = env.render()
        if frame is None:  # no picture for people: show what the policy sees
            one = obs[0] if is_multiagent(env) else obs
            frame = dict_obs(env, one)["obs"][-1]
        return np.asarray(frame, np.uint8)
    finally:
        env.close()


def enlarged(image: np.ndarray) -> np.ndarray:
    factor = max(1, HEIGHT // image.shape[0])
    image = image.repeat(factor, axis=0).repeat(factor, axis=1)
    step = max(1, image.shape[0] // (2 * HEIGHT))
    return image[::step, ::step]


def main() -> None:
    os.environ.setdefault("MUJOCO_GL", "egl")
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        picture = enlarged(picture_of(*(PICTURES | APART)[name]))
        (IMAGES / f"{name}.png").write_bytes(png(np.ascontiguousarray(picture)))


if __name__ == "__main__":
    main()
