"""This project in a side-by-side benchmark of training systems that counts frames inside the environments.

The benchmark's driver starts this script with `--workload --variant --workers --envs` and puts its own `envs`
module on the path; `--engine envpool` trains on EnvPool's simulators instead, and further arguments go to the
trainer. The driver learns of the first SGD step through the file named by $PEERBENCH_MARK.
"""

import argparse
import os
import sys
import threading
import time
from pathlib import Path

from sample_factory.config.parsing import parse_args
from sample_factory.envs.registry import register_env
from sample_factory.run_algorithm import run_algorithm

GAE = "--with_vtrace=False --gae_lambda=0.95 --gamma=0.99"
MLP = (
    f"{GAE} --encoder_type=mlp --encoder_subtype=mlp_mujoco --hidden_size=64 --encoder_extra_fc_layers=0 "
    "--nonlinearity=tanh --normalize_input=True --normalize_returns=True --use_rnn=False --recurrence=1 "
    "--batch_size=2048"
)
IMAGES = f"{GAE} --obs_scale=255 --hidden_size=512 --batch_size=2048 --rollout=32 --env_frameskip=4"
WORKLOADS = {
    "cartpole": f"{MLP} --rollout=32 --ppo_epochs=4 --reward_scale=0.1 --learning_rate=0.001 "
    "--exploration_loss_coeff=0.001 --ppo_clip_ratio=0.2",
    "halfcheetah": f"{MLP} --rollout=64 --ppo_epochs=2 --adaptive_stddev=False --learning_rate=0.00295 "
    "--policy_initialization=torch_default",
    "pong": f"{IMAGES} --encoder_subtype=convnet_atari --nonlinearity=relu --learning_rate=0.00025",
    "doom": f"{IMAGES} --encoder_subtype=convnet_simple --learning_rate=0.0001 --ppo_clip_value=0.2 "
    "--exploration_loss=symmetric_kl --exploration_loss_coeff=0.001",
}
FEED_FORWARD = "--use_rnn=False --recurrence=1"
COMMON = (
    "--algo=APPO --experiment=x --device=cpu --save_every_sec=100000 --restart_behavior=overwrite "
    "--decorrelate_experience_max_seconds=0 --decorrelate_envs_on_one_worker=False --worker_num_splits=1"
)


def make_workload(name, cfg=None, env_config=None):
    from envs import make_env

    return make_env(name)


def settings(args: argparse.Namespace, directory: str) -> list[str]:
    kind = "doom" if args.workload.startswith("doom") else args.workload
    recurrent = f"--use_rnn=True --rnn_type={args.variant} --recurrence=32"
    network = FEED_FORWARD if args.variant == "ff" else recurrent
    return [
        f"--env={args.workload}",
        f"--train_dir={directory}",
        f"--num_workers={args.workers}",
        f"--num_envs_per_worker={args.envs}",
        *COMMON.split(),
        *WORKLOADS[kind].split(),
        *network.split(),
    ]


def mark_first_step(directory: str, mark: str) -> None:
    """The first checkpoint is written right after the first SGD step."""
    while not list(Path(directory).glob("x/checkpoint_p0/checkpoint_*.pth")):
        time.sleep(0.05)
    Path(mark).write_text(str(time.time()))


def main() -> int:
    parser = argparse.ArgumentParser()
    for flag in ("--workload", "--variant", "--workers", "--envs"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--engine", choices=["shared", "envpool"], default="shared")
    args, rest = parser.parse_known_args()
    if args.engine == "envpool":
        import pool_workloads  # not at the top: every worker of every workload would import EnvPool

        pool_workloads.register(args.workload)
    else:
        register_env(args.workload, make_workload)
    directory = os.path.join(os.environ["PEERBENCH_TMP"], "td")
    mark = os.environ.get("PEERBENCH_MARK")
    if mark:
        threading.Thread(target=mark_first_step, args=(directory, mark), daemon=True).start()
    return run_algorithm(parse_args(settings(args, directory) + rest))


if __name__ == "__main__":
    sys.exit(main())
