"""The parts of a training step as programs of their own, for the bound that two cores set.

`side_by_side` runs them beside the training systems as `bound_env`, `bound_forward` and `bound_training`: two
single-threaded processes each, which step the shared environment with random actions, run the reference
network forward (batches of 128), or forward and backward (batches of 2048, images channels last in
micro-batches of 256), and do nothing else. What a step costs in each, added up, is the least that a training
step costs.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

BATCH, FORWARD_BATCH, MICRO_BATCH = 2048, 128, 256
NUM_PROCESSES = 2
CLOSE_SEC = 5.0


def env_steps(workload: str) -> Generator[int]:
    """Steps one environment; it counts itself."""
    from envs import make_env

    env = make_env(workload)
    env.reset(seed=os.getpid())
    actions = [env.action_space.sample() for _ in range(1024)]
    try:
        while True:
            for action in actions:
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
            yield 0
    finally:  # games leave shared memory behind when nobody ends them
        env.close()


def network_samples(workload: str, trains: bool) -> Generator[int]:
    """Runs the reference network; yields how many samples went through it."""
    import torch
    from models import net_for

    torch.set_num_threads(1)
    net, shape, dtype = net_for(workload)
    is_image = dtype == torch.uint8
    size = BATCH if trains else FORWARD_BATCH
    samples = torch.randint(0, 255, (size, *shape), dtype=dtype) if is_image else torch.randn(size, *shape)
    if is_image:
        net = net.to(memory_format=torch.channels_last)
        samples = samples.contiguous(memory_format=torch.channels_last)
    pieces = samples.split(MICRO_BATCH if is_image else size)
    optimizer = torch.optim.Adam(net.parameters(), 1e-4, fused=True)
    while True:
        with torch.set_grad_enabled(trains):
            outputs = [net(piece) for piece in pieces]
        if trains:
            loss = sum(torch.log_softmax(o[0], -1).mean() + o[1].square().mean() for o in outputs)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        yield size


def work(part: str, workload: str, mark: str) -> None:
    """One process, for ever."""
    from envs import Counter

    loops: dict[str, Callable[[], Generator[int]]] = {
        "env": lambda: env_steps(workload),
        "forward": lambda: network_samples(workload, trains=False),
        "training": lambda: network_samples(workload, trains=True),
    }
    counter = None if part == "env" else Counter()
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(loops[part]()) as loop:
        for done in loop:
            if counter is not None:
                counter.i[0] += done
            if not os.path.exists(mark):
                Path(mark).write_text(str(time.time()))


def main() -> None:
    """Starts the processes and waits for Ctrl+C."""
    parser = argparse.ArgumentParser()
    for flag in ("--workload", "--variant", "--workers", "--envs"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--part", choices=["env", "forward", "training"], required=True)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    arguments = (args.part, args.workload, os.environ["PEERBENCH_MARK"])
    workers = [context.Process(target=work, args=arguments, daemon=True) for _ in range(NUM_PROCESSES)]
    for worker in workers:
        worker.start()
    with contextlib.suppress(KeyboardInterrupt):
        for worker in workers:
            worker.join()
    for worker in workers:  # Ctrl+C reaches them too
        worker.join(CLOSE_SEC)


if __name__ == "__main__":
    main()
