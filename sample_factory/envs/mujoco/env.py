"""Makes one gymnasium MuJoCo task by its id, with bounded actions and its time limit.

Used by the MuJoCo family.
Invariant: the task never sees an action outside its bounds, so control costs are those of what was done.
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import mujoco

from sample_factory.envs.mujoco.locomotion import PLANAR_TASKS, PlanarLocomotion
from sample_factory.envs.mujoco_remarks import quiet_model_compiler
from sample_factory.envs.wrappers import ClipActions, SkipFrames, TimeLimit


def make_task(env_id: str, frameskip: int, render_mode: str | None) -> gymnasium.Env:
    """One task; gymnasium's own layers are left out, they cost time and hide nothing we need."""
    if render_mode is not None and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    with quiet_model_compiler():
        made = gymnasium.make(env_id, render_mode=render_mode, disable_env_checker=True)
    task = made.unwrapped
    if render_mode is not None:
        _follow_the_body(task)
    time_limit = made.spec.max_episode_steps if made.spec is not None else None
    env: gymnasium.Env
    if env_id in PLANAR_TASKS and time_limit and render_mode != "human":  # there a step also draws
        env = PlanarLocomotion(task, time_limit)
    else:
        env = ClipActions(TimeLimit(task, time_limit) if time_limit else task)
    return SkipFrames(env, frameskip) if frameskip > 1 else env


def _follow_the_body(task: Any) -> None:
    """Looks through the model's own camera, if any: gymnasium's stays put while the body runs off."""
    camera = mujoco.mj_name2id(task.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
    if camera >= 0:
        task.mujoco_renderer.camera_id = camera
