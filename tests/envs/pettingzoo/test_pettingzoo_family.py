"""PettingZoo environments: lists, deaths, turns, names."""

import importlib
import importlib.util
import logging
import pkgutil
import re

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from pettingzoo import ParallelEnv

from sample_factory.envs.make import make_env
from sample_factory.envs.multi_agent_vector import MultiAgentVector
from sample_factory.envs.pettingzoo.env import PettingZooEnv
from sample_factory.envs.pettingzoo.family import module_path
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.envs.roles import action_spaces, role_prefix, roles_of
from sample_factory.envs.vector import ObsRows
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


def test_the_last_step_brings_the_next_games_first_observation():
    _, steps = game_of_three()
    assert [float(obs[0]) for obs in steps[-1][0]] == [0.0, 0.0, 0.0]


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


AGENTS = {
    "butterfly.cooperative_pong_v6": 2,
    "butterfly.knights_archers_zombies_v11": 4,
    "butterfly.pistonball_v6": 5,
    "classic.connect_four_v3": 2,
    "classic.go_v5": 2,
    "classic.rps_v2": 2,
    "classic.tictactoe_v3": 2,
    "mpe.simple_formation_v1": 4,
    "mpe.simple_line_v1": 4,
    "mpe.simple_reference_v3": 2,
    "mpe.simple_spread_v3": 3,
    "mpe.simple_v3": 1,
    "sisl.multiwalker_v9": 3,
    "sisl.pursuit_v5": 8,
}
UNLIKE = {  # their agents have unlike spaces
    "mpe.collect_treasure_v1",
    "mpe.simple_adversary_v3",
    "mpe.simple_crypto_v3",
    "mpe.simple_push_v3",
    "mpe.simple_speaker_listener_v4",
    "mpe.simple_tag_v3",
    "mpe.simple_world_comm_v3",
}
NEED_MORE = {  # packages that the extra does not bring
    "classic.chess_v6",
    "classic.hanabi_v5",
    "classic.leduc_holdem_v4",
    "classic.texas_holdem_no_limit_v6",
    "classic.texas_holdem_v4",
}
FEWER_PISTONS = {"pettingzoo_kwargs": '{"n_pistons": 5}'}  # twenty large pictures a step take long


def modules_of(package):
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)]
    return [name for name in names if re.search(r"_v\d+$", name)]


def test_every_module_of_pettingzoo_is_known_to_these_tests():
    pytest.importorskip("mpe2")
    groups = {group: f"pettingzoo.{group}" for group in ("butterfly", "classic", "sisl")} | {"mpe": "mpe2"}
    found = {f"{group}.{name}" for group, package in groups.items() for name in modules_of(package)}
    assert found == set(AGENTS) | UNLIKE | NEED_MORE


@pytest.mark.parametrize(("module", "num_agents"), AGENTS.items())
def test_every_environment_keeps_the_contract_for_200_steps(module, num_agents):
    overrides = FEWER_PISTONS if "pistonball" in module else {}
    report = check_env(f"pettingzoo_{module}", overrides, steps=200)
    assert (report.num_agents, report.frames) == (num_agents, 200)


@pytest.mark.parametrize("module", ["sisl.pursuit_v5", "mpe.simple_spread_v3", "classic.connect_four_v3"])
def test_environments_keep_their_seed(module):
    check_env(f"pettingzoo_{module}", steps=40, reproducible=True)


@pytest.mark.parametrize("module", sorted(UNLIKE))
def test_environments_with_unlike_agents_keep_their_roles_apart(module):
    env = make(f"pettingzoo_{module}")
    env.reset(seed=0)
    roles = roles_of(env)
    choices = action_spaces(env)
    assert roles.count > 1
    for _ in range(60):
        observations, rewards, *_ = env.step([space.sample() for space in choices])
        assert len(rewards) == env.num_agents
        for agent, obs in enumerate(observations):
            assert env.observation_space.contains(obs)
            own = role_prefix(roles.of_agent[agent])
            assert all(key.startswith(own) or not value.any() for key, value in obs.items())
    env.close()


@pytest.mark.parametrize("module", sorted(NEED_MORE))
def test_an_environment_that_needs_another_package_says_which(module):
    try:
        make(f"pettingzoo_{module}").close()
    except MissingPackageError as error:
        assert "pip install" in str(error)


def test_the_picture_is_that_of_the_whole_game():
    name = "pettingzoo_mpe.simple_spread_v3"
    env = make_env(name, family_cfg(name), None, "rgb_array")
    env.reset(seed=0)
    picture = env.render()
    env.close()
    assert picture.shape[2] == 3
    assert picture.std() > 0


def test_frameskip_is_said_to_have_no_effect(caplog):
    with caplog.at_level(logging.WARNING):
        make("pettingzoo_mpe.simple_spread_v3", env_frameskip=4)
    assert "--env_frameskip=4 has no effect" in caplog.text


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
        "obs": (6 * 7 * 2 + 1,),
        "action_mask": (7,),
    }
    for turn in range(7):  # player 0 stacks column 0, player 1 column 1: four in a row on the seventh move
        masks = [int(obs["action_mask"].sum()) for obs in observations]
        assert masks[turn % 2] == 7
        assert masks[1 - turn % 2] == 0
        assert [int(obs["obs"][-1]) for obs in observations] == [1 - turn % 2, turn % 2]
        observations, rewards, terminated, _, infos = env.step([0, 1])
        assert all(info.get("is_active", True) for info in infos)
    assert (rewards, terminated) == ([1.0, -1.0], [True, True])


def test_warming_up_makes_no_forbidden_moves():
    env = make("pettingzoo_classic.tictactoe_v3")
    vector = MultiAgentVector([env], [0])
    rows = ObsRows(
        {"obs": np.zeros((2, 1, 19), np.int8), "action_mask": np.zeros((2, 1, 9), np.int8)}, np.arange(2)
    )
    vector.reset(rows)
    lengths = []
    for steps in [1] * 200:
        vector.warm_up([steps], rows, lambda: None)
        lengths.append(int(rows.views["obs"][0][0][:18].sum()))  # marks on the board
    assert min(np.diff(np.flatnonzero(np.equal(lengths, 0)))) >= 5  # no game ends before the fifth move


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
