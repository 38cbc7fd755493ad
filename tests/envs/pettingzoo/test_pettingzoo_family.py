"""PettingZoo environments: lists, deaths, turns, names."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from pettingzoo import ParallelEnv

from sample_factory.envs.make import make_env
from sample_factory.envs.pettingzoo.env import PettingZooEnv
from sample_factory.envs.pettingzoo.family import module_path
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from tests.envs.contract_check import check_env, family_cfg


class DuelOfThree(ParallelEnv):
    """Observes the step number; "first" dies on step 2, the others time out on step 4."""

    metadata = {"name": "duel_of_three"}  # noqa: RUF012
    possible_agents = ["first", "second", "third"]  # noqa: RUF012

    def observation_space(self, agent):
        return spaces.Box(0, 10, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps, self.acted = list(self.possible_agents), 0, []
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        self.acted.append(set(actions))
        alive = self.agents
        dead = {agent: agent == "first" and self.steps == 2 for agent in alive}
        late = {agent: self.steps == 4 for agent in alive}
        result = self._seen(), {agent: 1.0 for agent in alive}, dead, late, {agent: {} for agent in alive}
        self.agents = [agent for agent in alive if not dead[agent] and not late[agent]]
        return result

    def _seen(self):
        return {agent: np.array([self.steps], np.float32) for agent in self.agents}


class UnlikeAgents(DuelOfThree):
    def observation_space(self, agent):
        return spaces.Box(0, 10, (1 if agent == "first" else 2,), np.float32)

    def _seen(self):
        return {
            agent: np.full(self.observation_space(agent).shape, self.steps, np.float32)
            for agent in self.agents
        }


def game_of_three():
    """The scripted game and the results of its four steps."""
    game = DuelOfThree()
    env = PettingZooEnv(game, "pettingzoo_duel")
    env.reset(seed=0)
    return game, [env.step([0, 1, 0]) for _ in range(4)]


def test_a_dead_agent_is_inactive_until_the_game_ends():
    _, steps = game_of_three()
    assert [[info.get("is_active", True) for info in infos] for *_, infos in steps] == [
        [True, True, True],
        [True, True, True],
        [False, True, True],
        [False, True, True],
    ]
    assert [rewards for _, rewards, *_ in steps] == [[1.0] * 3, [1.0] * 3, [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]


def test_a_death_is_a_termination_and_the_common_end_of_time_a_truncation():
    _, steps = game_of_three()
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in steps] == [
        ([False] * 3, [False] * 3),
        ([True, False, False], [False] * 3),
        ([False] * 3, [False] * 3),
        ([True, False, False], [False, True, True]),
    ]


def test_only_living_agents_act():
    game = DuelOfThree()
    env = PettingZooEnv(game, "pettingzoo_duel")
    env.reset()
    for _ in range(3):
        env.step([0, 0, 0])
    assert game.acted == [{"first", "second", "third"}, {"first", "second", "third"}, {"second", "third"}]


def test_the_last_step_brings_the_next_games_first_observation_and_the_final_one_on_the_side():
    _, steps = game_of_three()
    observations, *_, infos = steps[-1]
    assert [float(obs[0]) for obs in observations] == [0.0, 0.0, 0.0]
    assert [float(info["final_obs"][0]) for info in infos[1:]] == [4.0, 4.0]
    assert "final_obs" not in infos[0]


def test_agents_with_different_spaces_have_roles_and_see_only_their_own_part():
    env = PettingZooEnv(UnlikeAgents(), "pettingzoo_unlike")
    assert env.roles.of_agent == (0, 1, 1)
    assert {key: space.shape for key, space in env.observation_space.spaces.items()} == {
        "role_0/obs": (1,),
        "role_1/obs": (2,),
    }
    env.reset(seed=0)
    observations, *_ = env.step([0, 1, 0])
    assert [{key: value.tolist() for key, value in obs.items()} for obs in observations] == [
        {"role_0/obs": [1.0], "role_1/obs": [0.0, 0.0]},
        {"role_0/obs": [0.0], "role_1/obs": [1.0, 1.0]},
        {"role_0/obs": [0.0], "role_1/obs": [1.0, 1.0]},
    ]


def test_agents_alike_have_no_roles():
    assert PettingZooEnv(DuelOfThree(), "pettingzoo_duel").roles is None


@pytest.mark.parametrize(
    ("name", "num_agents"),
    [
        ("pettingzoo_sisl.pursuit_v5", 8),
        ("pettingzoo_butterfly.knights_archers_zombies_v11", 4),
        ("pettingzoo_classic.rps_v2", 2),
        ("pettingzoo_classic.connect_four_v3", 2),
    ],
)
def test_environments_keep_the_contract_and_their_seed(name, num_agents):
    assert check_env(name, steps=40, reproducible=True).num_agents == num_agents


def test_two_underscores_stand_for_a_dot():
    assert module_path("pettingzoo_sisl__pursuit_v5") == module_path("pettingzoo_sisl.pursuit_v5")


def test_particle_environments_come_from_their_own_package():
    if importlib.util.find_spec("mpe2") is None:
        with pytest.raises(MissingPackageError, match="pip install mpe2"):
            make("pettingzoo_mpe.simple_spread_v3")
    else:
        assert check_env("pettingzoo_mpe.simple_spread_v3", steps=60, reproducible=True).num_agents == 3


def make(name, **overrides):
    return make_env(name, family_cfg(name, overrides), None)


def test_keyword_arguments_reach_the_environment():
    env = make("pettingzoo_sisl.pursuit_v5", pettingzoo_kwargs='{"n_pursuers": 3, "max_cycles": 2}')
    env.reset(seed=0)
    assert env.num_agents == 3
    ends = [env.step([0, 0, 0])[3] for _ in range(2)]
    assert ends == [[False] * 3, [True] * 3]


def test_broken_keyword_arguments_name_the_flag():
    with pytest.raises(ValueError, match="--pettingzoo_kwargs"):
        make("pettingzoo_sisl.pursuit_v5", pettingzoo_kwargs="n_pursuers=3")


def test_who_waits_for_its_turn_may_not_act_and_shares_the_outcome():
    env = make("pettingzoo_classic.connect_four_v3")
    observations, _ = env.reset(seed=0)
    assert {key: value.shape for key, value in observations[0].items()} == {
        "obs": (6 * 7 * 2,),
        "action_mask": (7,),
    }
    for turn in range(7):  # player 0 stacks column 0, player 1 column 1: four in a row on the seventh move
        masks = [int(obs["action_mask"].sum()) for obs in observations]
        assert masks[turn % 2] == 7
        assert masks[1 - turn % 2] == 0
        observations, rewards, terminated, _, infos = env.step([0, 1])
        assert all(info.get("is_active", True) for info in infos)
    assert (rewards, terminated) == ([1.0, -1.0], [True, True])


@pytest.mark.parametrize("name", ["pettingzoo_sisl.pursit_v5", "pettingzoo_nowhere.pursuit_v5"])
def test_an_unknown_module_is_refused(name):
    with pytest.raises(UnknownEnvError, match=r"try --env=pettingzoo_sisl\.pursuit_v5"):
        make(name)


def test_pictures_get_a_convolutional_network_with_channels_first():
    name = "pettingzoo_butterfly.cooperative_pong_v6"
    assert family_cfg(name).encoder_type == "conv"
    env = make(name)
    observations, _ = env.reset(seed=0)
    assert observations[0].shape == env.observation_space.shape == (3, 280, 480)
