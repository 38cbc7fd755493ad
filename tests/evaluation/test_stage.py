import numpy as np

from sample_factory.envs.make import make_env
from sample_factory.evaluation.stage import Stage, env_seed
from tests.doubles import TruncatingEnv, TwoAgentEnv
from tests.evaluation.paying import PayingEnv


def test_an_episode_is_reported_with_its_totals():
    stage = Stage(PayingEnv(length=3))
    stage.reset()
    ended = [stage.step([action]) for action in (0, 1, 2)]
    assert [len(episodes) for episodes in ended] == [0, 0, 1]
    episode = ended[-1][0]
    assert (episode.reward, episode.true_reward, episode.length_frames) == (3.0, 30.0, 3)


def test_a_single_agent_environment_is_reset_at_once():
    stage = Stage(PayingEnv(length=2))
    stage.reset()
    stage.step([0])
    stage.step([0])
    assert stage.observations[0]["obs"].max() == 0


def test_a_time_out_ends_an_episode_too():
    stage = Stage(TruncatingEnv(limit=2))
    stage.reset()
    stage.step([0])
    assert [episode.reward for episode in stage.step([0])] == [2.0]


def test_a_repeated_action_does_not_reach_into_the_next_episode():
    env = PayingEnv(length=6)
    stage = Stage(env)
    stage.reset()
    stage.step([1], repeat=4)
    assert len(stage.step([2], repeat=4)) == 1
    assert env.actions == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]


def test_the_end_of_an_episode_is_seen_before_the_next_begins():
    stage = Stage(PayingEnv(length=2))
    stage.reset()
    seen = []
    stage.step([0], repeat=5, after_step=lambda: seen.append(int(stage.observations[0]["obs"][0])))
    assert seen == [1, 2]


def test_frames_of_skipping_environments_count():
    stage = Stage(PayingEnv(length=6, frameskip=4))
    stage.reset()
    stage.step([1])
    assert stage.frames == 4
    assert [episode.length_frames for episode in stage.step([1])] == [6]
    assert stage.frames == 6


def test_agents_of_one_environment_have_episodes_of_their_own():
    stage = Stage(TwoAgentEnv(length=2))
    stage.reset()
    stage.step([0, 0])
    ended = stage.step([0, 1])
    assert [(episode.agent_index, episode.reward) for episode in ended] == [(0, 1.0), (1, 1.0)]
    assert stage.frames == 2


def test_observations_have_the_type_that_networks_are_built_for(train):
    cfg = train("--env=double_counting", action=1)
    env = make_env("double_counting", cfg, None)
    env.reset = lambda seed=None: (np.zeros(1, dtype=np.float64), {})
    stage = Stage(env)
    stage.reset()
    assert stage.observations[0]["obs"].dtype == np.float32


def test_environments_get_different_seeds_that_depend_on_nothing_else():
    seeds = [env_seed(7, index) for index in range(3)]
    assert len(set(seeds)) == 3
    assert seeds == [env_seed(7, index) for index in range(3)]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_only_the_first_episode_is_seeded():
    seeds = []

    class Noting(PayingEnv):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed)

    stage = Stage(Noting(length=1), seed=3)
    stage.reset()
    stage.step([0])
    assert seeds == [3, None]
