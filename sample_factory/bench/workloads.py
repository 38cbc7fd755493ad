"""What `sf bench speed` runs: environments, networks and batch sizes, each under one name.

Pure data. Networks, rollouts, batch sizes and epochs are those of common side-by-side comparisons, so that
figures can be held against other systems'. Invariant: a flag that is added later wins, so sweeps append.
"""

from __future__ import annotations

from dataclasses import dataclass

_PPO = "--with_vtrace=False --gae_lambda=0.95 --gamma=0.99"
_FEED_FORWARD = "--use_rnn=False --recurrence=1"
_MLP = (
    f"{_PPO} {_FEED_FORWARD} --encoder_type=mlp --encoder_subtype=mlp_mujoco --hidden_size=64 "
    "--encoder_extra_fc_layers=0 --nonlinearity=tanh --normalize_input=True --normalize_returns=True "
    "--batch_size=2048"
)
_CARTPOLE = f"{_MLP} --rollout=32 --ppo_epochs=4 --reward_scale=0.1 --learning_rate=0.001"
_HALFCHEETAH = f"{_MLP} --rollout=64 --ppo_epochs=2 --adaptive_stddev=False --learning_rate=0.00295"
_PICTURES = f"{_PPO} --obs_scale=255 --hidden_size=512 --batch_size=2048 --rollout=32 --ppo_epochs=1"
_DOOM = f"{_PICTURES} --encoder_subtype=convnet_simple"
_PONG = f"{_PICTURES} {_FEED_FORWARD} --encoder_subtype=convnet_atari --nonlinearity=relu"

# Nothing but the trainer's own work: no staggered start, no random steps, no checkpoints in between.
TRAINING_FLAGS = (
    "--algo=APPO --device=cpu --seed=1 --experiment=speed --progress=plain --save_every_sec=100000 "
    "--decorrelate_experience_max_seconds=0 --decorrelate_envs_on_one_worker=False --worker_num_splits=1"
)
SAMPLING_FLAGS = "--algo=DUMMY_SAMPLER --experiment=speed --timeout_seconds=100000"


@dataclass(frozen=True)
class Workload:
    """One environment with one network."""

    env: str
    training: str  # flags of the network and the learner
    envs_per_worker: int
    frames_per_step: int = 1
    env_flags: str = ""  # flags that sampling needs too
    package: str = "gymnasium"  # that must be installed
    sampled_envs: int = 1  # per worker when only stepping is measured

    def training_flags(self, workers: int, envs: int) -> list[str]:
        """The command line of a training, without directories."""
        numbers = [f"--num_workers={workers}", f"--num_envs_per_worker={envs}"]
        return [f"--env={self.env}", *f"{TRAINING_FLAGS} {self.env_flags} {self.training}".split(), *numbers]

    def sampling_flags(self, workers: int, envs: int) -> list[str]:
        """The command line of the dummy sampler on the same environment."""
        numbers = [f"--num_workers={workers}", f"--num_envs_per_worker={envs}"]
        return [f"--env={self.env}", *f"{SAMPLING_FLAGS} {self.env_flags}".split(), *numbers]


WORKLOADS = {
    "cartpole": Workload("gym_CartPole-v1", _CARTPOLE, envs_per_worker=32, sampled_envs=32),
    "cartpole_vector": Workload(
        "gym_CartPole-v1", _CARTPOLE, envs_per_worker=32, env_flags="--vectorized_envs=True"
    ),
    "cartpole_envpool": Workload("envpool_CartPole-v1", _CARTPOLE, envs_per_worker=32, package="envpool"),
    "halfcheetah": Workload(
        "mujoco_halfcheetah", _HALFCHEETAH, envs_per_worker=8, package="mujoco", sampled_envs=8
    ),
    "halfcheetah_envpool": Workload(
        "envpool_HalfCheetah-v4", _HALFCHEETAH, envs_per_worker=8, package="envpool"
    ),
    "doom_basic": Workload(
        "doom_basic",
        f"{_DOOM} {_FEED_FORWARD}",
        envs_per_worker=8,
        frames_per_step=4,
        package="vizdoom",
        sampled_envs=4,
    ),
    "doom_gru": Workload(
        "doom_basic",
        f"{_DOOM} --use_rnn=True --rnn_type=gru --recurrence=32",
        envs_per_worker=8,
        frames_per_step=4,
        package="vizdoom",
    ),
    "pong": Workload(
        "atari_pong", _PONG, envs_per_worker=8, frames_per_step=4, package="ale_py", sampled_envs=4
    ),
    "pong_envpool": Workload(
        "envpool_Pong-v5", _PONG, envs_per_worker=8, frames_per_step=4, package="envpool"
    ),
}
# One name per environment, for measuring what stepping alone can do.
SAMPLED = ("cartpole", "doom_basic", "pong", "halfcheetah")
