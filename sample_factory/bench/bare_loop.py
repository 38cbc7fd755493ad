"""The least that stepping environments can cost: processes that do nothing else, one bare loop each.

`python -m sample_factory.bench.bare_loop COUNTERS --algo=DUMMY_SAMPLER --env=...` takes the dummy sampler's
flags and is what its figure is held against. The same environments with the same seeds and the same random
actions, prepared beforehand, so that both play the same episodes; no observation is copied, and nothing is
counted but the steps.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.processes.worker import die_with_parent, show_name

STOP_SEC = 5.0
LOOK_SEC = 0.5  # numpy's threads may be the ones to hear Ctrl+C: this one learns of it when it wakes


def main(argv: Sequence[str]) -> int:
    """Starts `--num_workers` loops and waits until it is interrupted or one of them ends."""
    die_with_parent()
    counters, *flags = argv
    cfg = parse_args(flags)
    context = multiprocessing.get_context("spawn")
    loops = [context.Process(target=run_loop, args=(counters, flags, i)) for i in range(cfg.num_workers)]
    for loop in loops:
        loop.start()
    try:
        while not multiprocessing.connection.wait([loop.sentinel for loop in loops], LOOK_SEC):
            pass
    except KeyboardInterrupt:
        return 0
    finally:
        for loop in loops:
            loop.terminate()
            loop.join(STOP_SEC)
    return 1  # a loop has ended, which none ever does by itself


def run_loop(counters: str, flags: list[str], index: int) -> None:
    """One process of the benchmark."""
    from sample_factory.bench.counting import count_family

    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    show_name(f"rollout_worker_{index}")
    cfg = parse_args(flags)
    count_family(cfg.env, Path(counters))
    play(cfg, index)


def play(cfg: Config, index: int) -> NoReturn:
    """Does what sampler worker `index` does, as barely as possible."""
    from sample_factory.algorithms.dummy_sampler.worker import random_actions
    from sample_factory.envs.contract import EnvConfig
    from sample_factory.envs.make import make_env, make_vector_env

    first = index * cfg.num_envs_per_worker
    batch = make_vector_env(cfg.env, cfg, cfg.num_envs_per_worker)
    if batch is not None:
        step_batch(batch, random_actions(batch.action_space, batch.num_envs, index), first)
    places = range(cfg.num_envs_per_worker)
    envs = [make_env(cfg.env, cfg, EnvConfig(index, i, first + i)) for i in places]
    step_envs(envs, random_actions(envs[0].action_space, len(envs), index), first)


def step_envs(envs: list[Any], actions: Sequence[Sequence[Any]], seed: int) -> NoReturn:
    """Steps environments in turn and resets them, for ever."""
    for i, env in enumerate(envs):
        env.reset(seed=seed + i)
    while True:
        for one_each in actions:
            for env, action in zip(envs, one_each, strict=True):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()


def step_batch(batch: Any, actions: Sequence[Sequence[Any]], seed: int) -> NoReturn:
    """Steps a vectorised environment, which resets itself, for ever."""
    import numpy as np

    batch.reset(seed)
    arrays = [np.array(one_each) for one_each in actions]
    while True:
        for array in arrays:
            batch.step(array)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
