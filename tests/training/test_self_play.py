"""Games whose solution is known are solved by playing against oneself.

The mean reward of self-play in a zero-sum game is zero whatever is played, so the tests look at the strategy:
how often each action is chosen, and how much the best answer to it would win.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sample_factory.algorithms.appo.session import ExitStatus, run_session
from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import temporary_registrations
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.log import close_logging
from sample_factory.rl.distributions import CategoricalHeads
from sample_factory_examples.train_rock_paper_scissors import (
    EQUILIBRIUM,
    PAYOFFS,
    register_custom_components,
)
from tests.training import tictactoe

RPS = (
    "--algo=APPO",
    "--device=cpu",
    "--seed=1",
    "--serial_mode=True",
    "--num_workers=1",
    "--decorrelate_envs_on_one_worker=False",
    "--progress=plain",
    "--env=weighted_rps",
    # Plain small steps: momentum and Adam's constant step length make strategies circle for ever.
    "--adam_eps=1.0",
    "--adam_beta1=0.0",
    "--learning_rate=0.05",
    "--lr_schedule=linear_decay",
    "--exploration_loss_coeff=0.2",
    "--batch_size=256",
    "--num_envs_per_worker=32",
    "--train_for_env_steps=40000",
)
TICTACTOE = (
    "--algo=APPO",
    "--env=pettingzoo_classic.tictactoe_v3",
    "--device=cpu",
    "--seed=1",
    "--serial_mode=True",
    "--async_rl=False",
    "--num_workers=1",
    "--num_envs_per_worker=64",
    "--decorrelate_envs_on_one_worker=False",
    "--progress=plain",
    "--use_rnn=False",
    "--with_vtrace=False",
    "--gae_lambda=0.9",
    "--rollout=32",
    "--recurrence=1",
    "--batch_size=1024",
    "--num_batches_per_iteration=4",
    "--ppo_epochs=4",
    "--ppo_clip_ratio=0.2",
    "--learning_rate=0.003",
    "--lr_schedule=linear_decay",
    # Much entropy: with less the first player wins so surely that the second never finds out how to defend.
    "--exploration_loss_coeff=0.3",
    "--train_for_env_steps=400000",
)


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    with temporary_registrations():
        register_custom_components()
        yield
    close_logging()


def fresh_model(cfg: Config) -> ActorCritic:
    env = make_env(cfg.env, cfg, None)
    torch.manual_seed(0)
    return make_actor_critic(cfg, observation_dict_space(env), env.action_space)


def trained_model(train_dir: Path, *flags: str) -> ActorCritic:
    """The network of policy 0 after self-play."""
    cfg = parse_args([*flags, f"--train_dir={train_dir}", "--experiment=self_play"])
    assert run_session(cfg) is ExitStatus.SUCCESS
    model = fresh_model(cfg)
    checkpoint = CheckpointStore(train_dir / "self_play" / "checkpoint_p0").load_latest()
    assert checkpoint is not None
    model.load_state_dict(checkpoint.state["model"])
    return model


@torch.no_grad()
def probabilities(model: ActorCritic, **obs: np.ndarray) -> np.ndarray:
    """What a policy plays, for each observation: `[observations, actions]`."""
    tensors = {key: torch.from_numpy(array) for key, array in obs.items()}
    states = torch.zeros(len(tensors["obs"]), model.rnn_state_size)
    params = model.act(tensors, states).action_params
    distribution = model.action_distribution(params, tensors)
    assert isinstance(distribution, CategoricalHeads)
    return distribution.probs().squeeze(1).double().numpy()


@pytest.mark.learning
@pytest.mark.slow
def test_weighted_rock_paper_scissors_is_played_in_equilibrium(tmp_path: Path):
    played = probabilities(trained_model(tmp_path, *RPS), obs=np.ones((1, 1), np.float32))[0]
    assert played == pytest.approx(EQUILIBRIUM, abs=0.1)
    assert (PAYOFFS @ played).max() < 0.2  # the best answer; playing all three alike would lose 0.33 to it


def strategy_of(model: ActorCritic) -> tictactoe.Strategy:
    """What a network plays in every position of tic-tac-toe."""
    boards = tictactoe.decisions()
    seen = [(board, tictactoe.to_move(board)) for board in boards]
    played = probabilities(
        model,
        obs=np.stack([tictactoe.observation(*view) for view in seen]),
        action_mask=np.stack([tictactoe.mask(*view) for view in seen]),
    )
    return dict(zip(boards, played, strict=True))


def test_the_reference_knows_what_is_known_of_tictactoe():
    assert len(tictactoe.positions()) == 5478
    assert tictactoe.value(None, None) == 0.0
    # Playing at random the first player wins 737/1260 of the games and the second 121/420.
    anywhere = tictactoe.uniform()
    assert tictactoe.value(anywhere, anywhere) == pytest.approx(737 / 1260 - 121 / 420)


def test_the_reference_sees_what_the_environment_shows():
    pytest.importorskip("pettingzoo")
    cfg = parse_args([*TICTACTOE])
    env = make_env(cfg.env, cfg, None)
    rng = np.random.default_rng(0)
    games, board = 0, tictactoe.EMPTY
    observations, _ = env.reset(seed=0)
    while games < 50:
        for player, shown in enumerate(observations, start=1):
            assert shown["obs"].tolist() == tictactoe.observation(board, player).tolist()
            assert shown["action_mask"].tolist() == tictactoe.mask(board, player).tolist()
        square = int(rng.choice(list(tictactoe.moves(board))))
        actions = [0, 0]  # who waits names a square too, and it does not matter which
        actions[tictactoe.to_move(board) - 1] = square
        board = tictactoe.moves(board)[square]
        observations, rewards, terminated, truncated, _ = env.step(actions)
        over = tictactoe.result(board)
        assert rewards == ([0.0, 0.0] if over is None else [over, -over])
        assert (terminated, truncated) == ([over is not None] * 2, [False, False])
        if over is not None:
            games, board = games + 1, tictactoe.EMPTY


@pytest.mark.learning
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_self_play_draws_at_tictactoe(tmp_path: Path):
    """The likeliest moves draw against themselves and can't be beaten as first player.

    As second player a single slip in a rare position loses to an opponent who knows it, which not every
    training avoids; there the test asks for what is left of the best against a random opponent.
    """
    pytest.importorskip("pettingzoo")
    anywhere = tictactoe.uniform()
    best = tictactoe.value(None, anywhere), -tictactoe.value(anywhere, None)
    untrained = strategy_of(fresh_model(parse_args([*TICTACTOE])))
    assert min(tictactoe.losses_to_best_answer(untrained)) > 0.8
    assert tictactoe.losses_to_best_answer(tictactoe.greedy(untrained)) == (1.0, 1.0)

    sampled = strategy_of(trained_model(tmp_path, *TICTACTOE))
    played = tictactoe.greedy(sampled)
    assert tictactoe.value(played, played) == 0.0
    assert tictactoe.losses_to_best_answer(played)[0] == 0.0
    assert tictactoe.value(played, anywhere) > best[0] - 0.05
    assert -tictactoe.value(anywhere, played) > best[1] - 0.05
    assert sum(tictactoe.losses_to_best_answer(sampled)) < 1.0
