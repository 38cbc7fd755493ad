"""What several policies cost: frames per second of one policy against several on the same environment.

    python benchmarks/population_cost.py --policies 1 4 --seconds 30 --repeats 3 -- --env=gym_CartPole-v1 ...

Runs the sessions in turn, so that a drift of the machine hits all alike, and prints the medians and their
ratio. What stands after `--` are training flags, the same for all sessions.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TRAIN = "sample_factory.algorithms.appo.train_appo"
DEFAULT_FLAGS = (
    "--env=gym_CartPole-v1",
    "--encoder_type=mlp",
    "--encoder_subtype=mlp_mujoco",
    "--hidden_size=64",
    "--use_rnn=False",
    "--num_workers=2",
    "--num_envs_per_worker=64",
    "--batch_size=2048",
)
COLLECTED = re.compile(r"Collected \{.*\}, FPS: ([\d.]+)")


def frames_per_second(num_policies: int, seconds: int, flags: list[str]) -> float:
    """Trains for a while; the frames per second that the session reports at its end."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", TRAIN, "--algo=APPO", "--device=cpu", *flags]
        command += [f"--num_policies={num_policies}", f"--train_for_seconds={seconds}", "--progress=plain"]
        command += ["--decorrelate_experience_max_seconds=0", f"--train_dir={directory}", "--experiment=cost"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=10 * seconds + 120)
        if ended.returncode:
            raise SystemExit(f"training failed: {' '.join(command)}\n{ended.stderr[-2000:]}")
        log = (Path(directory) / "cost" / "sf_log.txt").read_text()
    found = COLLECTED.findall(log)
    if not found:
        raise SystemExit(f"the session reported no frames per second:\n{log[-2000:]}")
    if float(found[-1]) == 0.0:
        raise SystemExit(f"nothing was trained in --seconds={seconds}; use --seconds={10 * seconds}.")
    return float(found[-1])


def main() -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("flags", nargs="*", help="training flags, after --")
    arguments = parser.parse_args()
    flags = arguments.flags or list(DEFAULT_FLAGS)
    speeds: dict[int, list[float]] = {count: [] for count in arguments.policies}
    for _ in range(arguments.repeats):
        for count in arguments.policies:
            speeds[count].append(frames_per_second(count, arguments.seconds, flags))
            sys.stdout.write(f"{count} policies: {speeds[count][-1]:.0f} frames/s\n")
            sys.stdout.flush()
    medians = {count: statistics.median(found) for count, found in speeds.items()}
    first = medians[arguments.policies[0]]
    ratios = {count: median / first for count, median in medians.items()}
    sys.stdout.write(json.dumps({"flags": flags, "frames_per_second": speeds, "ratio": ratios}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
