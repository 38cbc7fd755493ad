import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.config.config import experiment_dir
from sample_factory.envs.make import make_env
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.player import RandomPlayer, TrainedPlayer, load_player
from sample_factory.model.actor_critic import PolicyOutput
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.rl.distributions import make_distribution


class CountingModel(torch.nn.Module):
    """Its action is its recurrent state, which counts the steps it has seen."""

    rnn_state_size = 1
    action_space = spaces.Discrete(10)

    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def act(self, obs, rnn_states):
        logits = 100.0 * torch.nn.functional.one_hot(rnn_states[:, 0].long(), 10)
        return PolicyOutput(logits, torch.zeros(len(logits)), rnn_states + 1)

    def action_distribution(self, params, obs):
        return make_distribution(self.action_space, params)


def observations(count):
    return [{"obs": np.zeros(1, np.float32)}] * count


def test_every_agent_has_a_memory_of_its_own():
    player = TrainedPlayer(CountingModel())
    player.begin(3)
    player.act(observations(1), [1])
    player.act(observations(2), [1, 2])
    assert player.act(observations(3), [0, 1, 2]) == [0, 2, 1]


def test_memory_ends_with_the_episode():
    player = TrainedPlayer(CountingModel())
    player.begin(2)
    player.act(observations(2), [0, 1])
    player.forget(0)
    assert player.act(observations(2), [0, 1]) == [0, 1]


def test_a_new_beginning_clears_all_memory():
    player = TrainedPlayer(CountingModel())
    player.begin(1)
    player.act(observations(1), [0])
    player.begin(1)
    assert player.act(observations(1), [0]) == [0]


class CoinModel(CountingModel):
    """Action 1 has probability 0.6, action 0 has 0.4."""

    def act(self, obs, rnn_states):
        logits = torch.full((len(rnn_states), 10), -100.0)
        logits[:, 0], logits[:, 1] = math.log(0.4), math.log(0.6)
        return PolicyOutput(logits, torch.zeros(len(logits)), rnn_states)


def test_a_deterministic_player_takes_the_most_likely_action():
    player = TrainedPlayer(CoinModel(), deterministic=True)
    player.begin(200)
    assert set(player.act(observations(200), range(200))) == {1}


def test_otherwise_actions_are_sampled_and_a_seed_repeats_them():
    drawn = []
    for _ in range(2):
        player = TrainedPlayer(CoinModel(), seed=11)
        player.begin(200)
        drawn.append(player.act(observations(200), range(200)))
    assert drawn[0] == drawn[1]
    assert 80 <= sum(drawn[0]) <= 160


def test_a_random_player_never_takes_a_forbidden_action():
    player = RandomPlayer(spaces.Discrete(4), seed=1)
    masked = [{"obs": np.zeros(1), "action_mask": np.array([0, 1, 0, 1], np.int8)}] * 100
    assert set(player.act(masked, range(100))) == {1, 3}


def test_a_random_player_acts_in_any_space():
    space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))
    player = RandomPlayer(space, seed=1)
    assert all(space.contains(action) for action in player.act(observations(20), range(20)))


def test_the_saved_policy_is_the_one_that_plays(train):
    cfg = train(action=1)
    env = make_env(cfg.env, cfg, None)
    player = load_player(cfg, env)
    obs, _ = env.reset()
    assert player.act([{"obs": obs}], [0]) == [1]


def test_policy_index_chooses_the_policy(train):
    train(action=1, policy_index=0)
    cfg = train(action=2, policy_index=1)
    cfg.policy_index = 1
    env = make_env(cfg.env, cfg, None)
    assert load_player(cfg, env).act([{"obs": env.reset()[0]}], [0]) == [2]


def test_the_best_checkpoint_is_played_when_asked_for(train):
    cfg = train(action=1)
    store = CheckpointStore(experiment_dir(cfg) / "checkpoint_p0")
    state = store.load_latest().state
    state["model"]["action_head.linear.bias"] = torch.tensor([100.0, 0.0, 0.0])
    store.save_best(state, policy_version=3, env_steps=200, metric="reward", value=1.0)
    cfg.load_checkpoint_kind = "best"
    env = make_env(cfg.env, cfg, None)
    assert load_player(cfg, env).act([{"obs": env.reset()[0]}], [0]) == [0]


def test_a_missing_best_checkpoint_names_the_flag_that_works(train):
    cfg = train()
    cfg.load_checkpoint_kind = "best"
    with pytest.raises(EvaluationError, match=r"use --iter_num=latest\.$"):
        load_player(cfg, make_env(cfg.env, cfg, None))


def test_a_missing_policy_names_one_that_exists(train):
    cfg = train()
    cfg.policy_index = 3
    with pytest.raises(EvaluationError, match=r"^Policy 3 has no checkpoints in .*; use --policy_index=0\.$"):
        load_player(cfg, make_env(cfg.env, cfg, None))


def test_a_checkpoint_of_another_network_is_one_sentence(train):
    cfg = train()
    cfg.hidden_size = 16
    with pytest.raises(EvaluationError, match="does not fit the network") as raised:
        load_player(cfg, make_env(cfg.env, cfg, None))
    assert "\n" not in str(raised.value)


def test_continuous_actions_sample_false_takes_the_mean(train):
    cfg = train("--env=double_continuous", action=0)
    cfg.continuous_actions_sample = False
    env = make_env(cfg.env, cfg, None)
    player = load_player(cfg, env)
    obs = {"obs": np.zeros(2, np.float32)}
    assert player.act([obs], [0])[0].tolist() == [100.0]
