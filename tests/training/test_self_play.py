"""A game whose solution is known is solved by playing against oneself.

The mean reward of self-play in a zero-sum game is zero whatever is played, so the test looks at the strategy:
how often each action is chosen, and how much the best answer to it would win.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sample_factory.algorithms.appo.session import ExitStatus, run_session
from sample_factory.config.parsing import parse_args
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import temporary_registrations
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.log import close_logging
from sample_factory_examples.train_rock_paper_scissors import (
    EQUILIBRIUM,
    PAYOFFS,
    register_custom_components,
)

pytestmark = [pytest.mark.learning, pytest.mark.slow]

SELF_PLAY = (
    "--algo=APPO",
    "--device=cpu",
    "--seed=1",
    "--serial_mode=True",
    "--num_workers=1",
    "--decorrelate_envs_on_one_worker=False",
    "--progress=plain",
    "--experiment=self_play",
    # Plain small steps: momentum and Adam's constant step length make strategies circle for ever.
    "--adam_eps=1.0",
    "--adam_beta1=0.0",
    "--learning_rate=0.05",
    "--lr_schedule=linear_decay",
    "--exploration_loss_coeff=0.2",
    "--batch_size=256",
    "--num_envs_per_worker=32",
)


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    with temporary_registrations():
        register_custom_components()
        yield
    close_logging()


def trained_probabilities(train_dir: Path, obs: np.ndarray, *flags: str, policy_id: int = 0) -> np.ndarray:
    """What a policy plays after self-play, for each observation: `[observations, actions]`."""
    cfg = parse_args([*SELF_PLAY, *flags, f"--train_dir={train_dir}"])
    assert run_session(cfg) is ExitStatus.SUCCESS
    env = make_env(cfg.env, cfg, None)
    model = make_actor_critic(cfg, observation_dict_space(env), env.action_space)
    checkpoint = CheckpointStore(train_dir / "self_play" / f"checkpoint_p{policy_id}").load_latest()
    assert checkpoint is not None
    model.load_state_dict(checkpoint.state["model"])
    with torch.no_grad():
        states = torch.zeros(len(obs), model.rnn_state_size)
        return model.act({"obs": torch.from_numpy(obs)}, states).action_params.softmax(dim=-1).numpy()


def test_weighted_rock_paper_scissors_is_played_in_equilibrium(tmp_path: Path):
    flags = ("--env=weighted_rps", "--train_for_env_steps=40000")
    played = trained_probabilities(tmp_path, np.ones((1, 1), np.float32), *flags)[0]
    assert played == pytest.approx(EQUILIBRIUM, abs=0.1)
    assert (PAYOFFS @ played).max() < 0.2  # the best answer; playing all three alike would lose 0.33 to it
