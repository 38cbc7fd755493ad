"""Sessions that train until they should be good, and how good they got.

Seeds are fixed, but parallel sessions do not repeat themselves exactly; so targets leave a wide margin, and
the learning rate falls to zero, which keeps what was learned.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np

from sample_factory.algorithms.appo.session import ExitStatus, run_session
from sample_factory.config.parsing import parse_args
from sample_factory.monitoring.metrics import read_metrics
from tests.doubles import MaskedEnv, Step

NETWORK = (
    "--algo=APPO",
    "--device=cpu",
    "--seed=1",
    "--encoder_type=mlp",
    "--encoder_subtype=mlp_mujoco",
    "--encoder_extra_fc_layers=0",
    "--lr_schedule=linear_decay",
    "--ppo_clip_ratio=0.2",
    "--decorrelate_experience_max_seconds=0",
    "--decorrelate_envs_on_one_worker=False",
    "--progress=plain",
)
CARTPOLE = (
    *NETWORK,
    "--env=gym_CartPole-v1",
    "--use_rnn=False",
    "--with_vtrace=False",
    "--recurrence=1",
    "--hidden_size=64",
    "--nonlinearity=tanh",
    "--reward_scale=0.1",
    "--num_workers=2",
    "--num_envs_per_worker=8",
    "--batch_size=512",
    "--ppo_epochs=8",
    "--gamma=0.98",
    "--gae_lambda=0.9",
    "--learning_rate=0.002",
    "--exploration_loss_coeff=0.0",
    "--train_for_env_steps=170000",
)
DOUBLE = (
    *NETWORK,
    "--use_rnn=False",
    "--hidden_size=32",
    "--rollout=16",
    "--recurrence=16",
    "--num_workers=2",
    "--num_envs_per_worker=8",
    "--batch_size=512",
    "--ppo_epochs=4",
    "--gamma=0.95",
    "--learning_rate=0.004",
    # Once every episode is perfect, advantages are noise; a larger epsilon keeps Adam from following it.
    "--adam_eps=0.0001",
    "--train_for_env_steps=40000",
)


def mean_reward(train_dir: Path, *flags: str, num_policies: int = 1) -> list[float]:
    """Trains, and returns the mean reward of each policy's last hundred episodes."""
    cfg = parse_args([*flags, f"--train_dir={train_dir}", "--experiment=learning"])
    assert run_session(cfg) is ExitStatus.SUCCESS
    records = read_metrics(train_dir / "learning" / "metrics.jsonl")
    tag = "0_aux/avg_reward"
    return [
        next(r[tag] for r in reversed(records) if r["policy"] == policy_id and tag in r)
        for policy_id in range(num_policies)
    ]


class RankedMaskEnv(MaskedEnv):
    """Pays the more the higher the number of the action; forbidden actions cost 10.

    The network does not see the mask, so the best it can do is to prefer high numbers.
    """

    def step(self, action: int) -> Step:
        rank = int(action)
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, rank / 3 if reward > 0 else reward, terminated, truncated, info


def make_ranked_mask(full_env_name: str, cfg: object = None, env_config: object = None) -> gymnasium.Env:
    return RankedMaskEnv()


def returns_of(choose, episodes: int = 300) -> float:
    """Mean return in `RankedMaskEnv` of a rule that picks one of the allowed actions."""
    env, rng = RankedMaskEnv(), np.random.default_rng(0)
    total = 0.0
    obs, _ = env.reset(seed=0)
    for _ in range(episodes * env.length):
        allowed = np.flatnonzero(obs["action_mask"])
        obs, reward, *_ = env.step(choose(allowed, rng))
        total += reward
    return total / episodes
