"""A made-up experiment: an environment that pays what the action says, a policy that always acts alike."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.experiment_files import save_cfg
from sample_factory.config.parsing import parse_args
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import register_env, temporary_registrations
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore
from tests.doubles import register_doubles
from tests.evaluation.paying import MADE, PayingEnv, make_paying_env


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    with temporary_registrations():
        register_doubles()
        register_env("paying", make_paying_env)
        MADE.clear()
        yield


@pytest.fixture
def made_envs() -> list[PayingEnv]:
    """Every `paying` environment made so far in this test."""
    return MADE


@pytest.fixture
def command_line(tmp_path: Path) -> list[str]:
    return ["--algo=APPO", "--env=paying", "--experiment=made_up", f"--train_dir={tmp_path}"]


NETWORK = [
    "--encoder_type=mlp",
    "--encoder_subtype=mlp_mujoco",
    "--hidden_size=8",
    "--use_rnn=False",
    "--recurrence=1",
    "--with_vtrace=False",
    "--device=cpu",
]


def save_steady_policy(cfg: Config, action: int, policy_index: int = 0) -> None:
    """Puts an experiment on disk whose policy always takes the given action."""
    env = make_env(cfg.env, cfg, None)
    model = make_actor_critic(cfg, observation_dict_space(env), env.action_space)
    with torch.no_grad():
        model.action_head.linear.weight.zero_()
        model.action_head.linear.bias.zero_()
        model.action_head.linear.bias[action] = 100.0
    save_cfg(cfg)
    store = CheckpointStore(experiment_dir(cfg) / f"checkpoint_p{policy_index}")
    store.save({"model": model.state_dict()}, policy_version=5, env_steps=320)


@pytest.fixture
def train(command_line: list[str]) -> Callable[..., Config]:
    """`save_steady_policy` from flags."""

    def make(*flags: str, action: int = 2, policy_index: int = 0) -> Config:
        cfg = parse_args([*command_line, *NETWORK, *flags])
        save_steady_policy(cfg, action, policy_index)
        MADE.clear()
        return cfg

    return make
