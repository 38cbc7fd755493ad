"""Agents that differ: each role has policies, a layout and a population of its own in one environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.enjoy_appo import enjoy
from sample_factory.algorithms.appo.population import EVENTS_FILE, Population
from sample_factory.algorithms.appo.probe import RoleProbe
from sample_factory.algorithms.appo.role_stores import (
    RoleActions,
    RoleArrays,
    RoleMapping,
    check_roles,
    layout_for_all,
)
from sample_factory.algorithms.appo.scripts.multi_agent_match import main as match
from sample_factory.algorithms.appo.session import ExitStatus, run_session
from sample_factory.algorithms.appo.trajectories import TrajectoryLayout, TrajectoryStore
from sample_factory.algorithms.appo.weights import WeightsLayout
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import save_cfg
from sample_factory.config.parsing import default_cfg, parse_args
from sample_factory.envs.registry import register_env, temporary_registrations
from sample_factory.envs.roles import RoleObservations, Roles
from sample_factory.evaluate import main as evaluate
from sample_factory.evaluation.export import export_policy
from sample_factory.evaluation.player import random_player
from sample_factory.evaluation.policy import load_policy
from sample_factory.evaluation.source import locate
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.log import close_logging
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory.rl.action_spaces import to_env_actions
from tests.training.learning import DOUBLE, mean_reward


def role(prefix: str, obs_size: int, action_space: spaces.Space[Any], actions: int, logits: int) -> RoleProbe:
    return RoleProbe(
        obs_space=spaces.Dict({"obs": spaces.Box(0, 1, (obs_size,), np.float32)}),
        action_space=action_space,
        trajectories=TrajectoryLayout(4, {"obs": ((obs_size,), "float32")}, actions, logits, obs_size),
        weights=WeightsLayout({}),
        obs_prefix=prefix,
    )


SMALL = role("role_0/", 2, spaces.Discrete(3), actions=1, logits=3)
LARGE = role("role_1/", 5, spaces.MultiDiscrete([2, 2]), actions=2, logits=4)


def test_the_store_has_room_for_every_role():
    layout = layout_for_all([SMALL, LARGE])
    assert layout.observations == {"role_0/obs": ((2,), "float32"), "role_1/obs": ((5,), "float32")}
    assert layout.num_actions == 2
    assert layout.num_outputs == LARGE.trajectories.num_outputs == 8
    assert layout.rnn_state_size == 5


def test_a_role_sees_its_own_part_of_the_store():
    arrays = SharedArrays(layout_for_all([SMALL, LARGE]).specs(num_slots=3))
    store = TrajectoryStore(SMALL.trajectories, RoleArrays(arrays, SMALL))
    assert store.obs["obs"].shape == (3, 5, 2)
    assert store.outputs.shape == (3, 4, 6)
    store.outputs[[0, 2], 1] = np.arange(6)
    store.obs["obs"][1, 0] = [7.0, 8.0]
    assert arrays["outputs"][2, 1].tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert arrays["obs/role_0/obs"][1, 0].tolist() == [7.0, 8.0]
    assert store.actions[2, 1].tolist() == [0.0]


def test_each_agent_acts_in_its_own_space():
    convert = RoleActions([0, 1, 1], [SMALL, LARGE], to_env_actions)
    actions = convert(np.array([[2, 0], [0, 1], [1, 1], [1, 0], [1, 0], [0, 0]], np.float32))
    assert [np.asarray(action).tolist() for action in actions] == [2, [0, 1], [1, 1], 1, [1, 0], [0, 0]]


@pytest.mark.parametrize("mix", [True, False])
def test_agents_are_played_by_policies_of_their_role(mix: bool):
    mapping = RoleMapping([0, 1, 1], num_envs=200, num_policies=6, mix=mix, seed=0)
    policies = mapping.policies.reshape(200, 3)
    assert (policies % 2 == [0, 1, 1]).all()
    assert set(policies.ravel().tolist()) == {0, 1, 2, 3, 4, 5}
    one_team = (policies // 2 == policies[:, :1] // 2).all(axis=1)
    assert one_team.all() != mix


def test_where_policies_take_turns_every_team_keeps_its_environments():
    mapping = RoleMapping([0, 1], num_envs=4, num_policies=4, fixed_from=3)
    assert mapping.policies.tolist() == [2, 3, 0, 1, 2, 3, 0, 1]
    mapping.episodes_ended(range(8))
    assert mapping.policies.tolist() == [2, 3, 0, 1, 2, 3, 0, 1]


def test_weak_policies_are_replaced_within_their_role(tmp_path: Path):
    cfg = default_cfg()
    cfg.num_policies, cfg.with_pbt, cfg.pbt_start_mutation, cfg.pbt_period_env_steps = 4, True, 10, 10
    board = Board(SharedArrays(Board.specs(4, 1, 1, 1, 1)))
    population = Population(cfg, board, tmp_path, None, seed=0, num_roles=2)
    board.env_steps[:] = 100
    population.step([1.0, 20.0, 2.0, 10.0])  # roles 0, 1, 0, 1
    lines = (tmp_path / EVENTS_FILE).read_text().splitlines()
    replaced = {e["policy"]: e["donor"] for e in map(json.loads, lines) if e["event"] == "replaced"}
    assert replaced == {0: 2, 3: 1}


class UnlikeTwins(gymnasium.Env):
    """Agent 0 names one of two bits, agent 1 one of four; each is paid for its own answer."""

    num_agents = 2
    is_multiagent = True
    sizes = (2, 4)
    length = 8
    roles = Roles((0, 1), tuple(spaces.Discrete(size) for size in sizes))
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        parts = [{"obs": spaces.Box(0.0, 1.0, (size,), np.float32)} for size in self.sizes]
        self._in_one_space = RoleObservations((0, 1), parts)
        self.observation_space = self._in_one_space.space

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[list, list]:
        super().reset(seed=seed)
        self.count = 0
        return self._draw(), [{}, {}]

    def step(self, actions: Any) -> tuple[list, list, list, list, list]:  # type: ignore[override]
        assert all(0 <= int(action) < size for action, size in zip(actions, self.sizes, strict=True))
        rewards = [float(int(a) == bit) for a, bit in zip(actions, self.bits, strict=True)]
        self.count = (self.count + 1) % self.length
        return self._draw(), rewards, [self.count == 0] * 2, [False] * 2, [{}, {}]

    def _draw(self) -> list[dict[str, np.ndarray]]:
        self.bits = [int(self.np_random.integers(size)) for size in self.sizes]
        shown = zip(self.sizes, self.bits, strict=True)
        return [
            self._in_one_space(agent, {"obs": np.eye(size, dtype=np.float32)[bit]})
            for agent, (size, bit) in enumerate(shown)
        ]


def make_unlike_twins(full_env_name: str, cfg: object = None, env_config: object = None) -> gymnasium.Env:
    return UnlikeTwins()


@pytest.fixture
def twins() -> Iterator[None]:
    with temporary_registrations():
        register_env("unlike_twins", make_unlike_twins)
        yield
    close_logging()


TWINS = (
    *DOUBLE,
    "--env=unlike_twins",
    "--rollout=8",
    "--recurrence=8",
    "--batch_size=256",
    "--ppo_epochs=2",
    "--learning_rate=0.03",
    "--lr_schedule=constant",
    "--serial_mode=True",
    "--num_workers=1",
    "--num_envs_per_worker=32",
    "--decorrelate_envs_on_one_worker=True",
    "--train_for_env_steps=8000",
    "--stats_avg=20",
)


@pytest.mark.learning
@pytest.mark.slow
@pytest.mark.usefixtures("twins")
@pytest.mark.parametrize("flag", ["--use_rnn=False", "--use_rnn=True", "--async_rl=False"])
def test_agents_that_differ_both_learn(tmp_path: Path, flag: str):
    # Guessing gets 4 and 2 of 8.
    rewards = mean_reward(tmp_path, *TWINS, "--num_policies=2", flag, num_policies=2)
    assert min(rewards) > 6.5


@pytest.fixture
def trained_twins(tmp_path: Path, twins: None) -> Path:
    """An experiment with two teams, each of whose policies names the bit it sees."""
    flags = [*TWINS, f"--train_dir={tmp_path}", "--experiment=twins", "--num_policies=4"]
    cfg = parse_args(flags)
    save_cfg(cfg)
    for policy_id in range(4):
        size = UnlikeTwins.sizes[policy_id % 2]
        space = spaces.Dict({"obs": spaces.Box(0.0, 1.0, (size,), np.float32)})
        torch.manual_seed(policy_id)
        model = make_actor_critic(cfg, space, spaces.Discrete(size))
        teach_to_copy(model, size)
        store = CheckpointStore(tmp_path / "twins" / f"checkpoint_p{policy_id}")
        store.save({"model": model.state_dict()}, policy_version=policy_id + 1, env_steps=100)
    return tmp_path / "twins"


def teach_to_copy(model: ActorCritic, size: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seen, states = {"obs": torch.eye(size)}, torch.zeros(size, model.rnn_state_size)
    for _ in range(200):
        logits = model.act(seen, states).action_params
        loss = torch.nn.functional.cross_entropy(logits, torch.arange(size))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluation_flags(experiment: Path, *flags: str) -> list[str]:
    return [
        "--algo=APPO",
        "--env=unlike_twins",
        f"--train_dir={experiment.parent}",
        f"--experiment={experiment.name}",
        "--eval_deterministic=True",
        *flags,
    ]


@pytest.mark.parametrize("policy_index", [0, 3])
def test_agents_that_differ_are_shown_together(trained_twins: Path, policy_index: int):
    flags = evaluation_flags(trained_twins, "--no_render", "--max_num_episodes=8")
    cfg = parse_args([*flags, f"--policy_index={policy_index}"], evaluation=True)
    assert enjoy(cfg) == (0, 8.0)  # every answer of both agents is right


def test_agents_that_differ_are_scored_together(trained_twins: Path, capsys: pytest.CaptureFixture[str]):
    flags = ("--max_num_episodes=12", "--num_envs_per_worker=3", "--num_workers=1", "--policy_index=2")
    assert evaluate([*evaluation_flags(trained_twins), *flags]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n_traj"], summary["return_mean"], summary["policy_version"]) == (12, 8.0, 3)


def test_chance_plays_every_role():
    player = random_player(UnlikeTwins(), seed=0)
    observations = UnlikeTwins().reset(seed=0)[0] * 100
    actions = np.array(player.act(observations, range(200))).reshape(100, 2)
    assert actions.max(axis=0).tolist() == [1, 3]


def test_a_policy_is_loaded_with_the_spaces_of_its_role(trained_twins: Path):
    policy = load_policy(trained_twins, policy_index=1)
    assert {key: space.shape for key, space in policy.observation_space.spaces.items()} == {"obs": (4,)}
    actions, _ = policy.act(np.eye(4, dtype=np.float32))
    assert [int(action) for action in actions] == [0, 1, 2, 3]


def test_a_policy_is_exported_with_the_spaces_of_its_role(trained_twins: Path, tmp_path: Path):
    file = tmp_path / "second.pt"
    assert export_policy(locate(trained_twins), file, policy_index=1) < 1e-3
    actions, _ = load_policy(file).act(np.eye(4, dtype=np.float32))
    assert [int(action) for action in actions] == [0, 1, 2, 3]


def test_agents_that_differ_play_no_matches(trained_twins: Path, capsys: pytest.CaptureFixture[str]):
    assert match([trained_twins.name] * 2 + [f"--train_dir={trained_twins.parent}"]) == 1
    assert "--env=unlike_twins has agents that differ" in capsys.readouterr().err


@pytest.mark.usefixtures("twins")
@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        (("--num_policies=1",), "--num_policies=2"),
        (("--num_policies=2", "--league_fraction=0.5"), "--league_fraction=0"),
        (("--num_policies=2", "--eval_every_env_steps=500"), "--eval_every_env_steps=0"),
    ],
)
def test_what_roles_cannot_do_is_refused_with_a_remedy(tmp_path: Path, flags: tuple[str, ...], remedy: str):
    with pytest.raises(ConfigError, match=f"use {remedy}"):
        run_session(parse_args([*TWINS, f"--train_dir={tmp_path}", *flags]))


def test_taking_turns_needs_as_many_agents_of_each_kind():
    cfg = default_cfg()
    cfg.env, cfg.async_rl, cfg.num_policies = "pettingzoo_mpe.simple_adversary_v3", False, 2
    either = (spaces.Discrete(5), spaces.Discrete(5))
    check_roles(cfg, Roles((0, 1, 0, 1), either))
    with pytest.raises(ConfigError, match="use --async_rl=True"):
        check_roles(cfg, Roles((0, 1, 1), either))


def test_a_pettingzoo_game_with_an_adversary_trains_a_network_for_each_role(tmp_path: Path):
    pytest.importorskip("mpe2")
    flags = (
        "--env=pettingzoo_mpe.simple_adversary_v3",
        "--pettingzoo_kwargs={}",
        "--use_rnn=False",
        "--hidden_size=16",
        "--num_policies=2",
        "--train_for_env_steps=300",
        "--batch_size=64",
        "--experiment=adversary",
    )
    cfg = parse_args([*TWINS, *flags, f"--train_dir={tmp_path}"])
    assert run_session(cfg) is ExitStatus.SUCCESS
    inputs = []
    for policy_id in range(2):
        found = CheckpointStore(tmp_path / "adversary" / f"checkpoint_p{policy_id}").load_latest()
        assert found is not None
        first = next(tensor for tensor in found.state["model"].values() if tensor.ndim == 2)
        inputs.append(first.shape[1])
    assert inputs == [8, 10]
    close_logging()
