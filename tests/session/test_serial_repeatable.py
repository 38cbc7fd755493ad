"""Serial sessions repeat themselves bit for bit, also when they are interrupted and resumed."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import pytest

from sample_factory.envs.registry import register_env
from tests.session.running import FEED_FORWARD, latest, same_weights, train_serially, weights

GRU_POLICY_WORKERS = ("--use_rnn=True", "--inference=policy_workers", "--worker_num_splits=2")
SHUFFLED = (
    *FEED_FORWARD,
    "--with_vtrace=False",
    "--recurrence=1",
    "--num_batches_per_iteration=2",
    "--ppo_epochs=2",
)
SESSIONS = {
    "feed-forward, inference in rollout workers": ("gym_CartPole-v1", FEED_FORWARD),
    "GRU, inference in policy workers, two splits": ("gym_CartPole-v1", GRU_POLICY_WORKERS),
    "LSTM": ("double_memory", ("--rnn_type=lstm",)),
    "time-outs": ("double_truncating", FEED_FORWARD),
    "real-valued actions": ("double_continuous", FEED_FORWARD),
    "several choices at once": ("double_multidiscrete", FEED_FORWARD),
    "dictionary observations with a mask": ("double_masked", FEED_FORWARD),
    "shuffled minibatches, several epochs": ("gym_CartPole-v1", SHUFFLED),
    "two policies": ("gym_CartPole-v1", (*FEED_FORWARD, "--num_policies=2")),
    "two policies, policy workers": ("gym_CartPole-v1", (*GRU_POLICY_WORKERS, "--num_policies=2")),
    "normalisation": ("gym_CartPole-v1", ("--normalize_input=True", "--normalize_returns=True")),
    "decorrelated environments": ("gym_CartPole-v1", ("--decorrelate_envs_on_one_worker=True",)),
    "sync": ("gym_CartPole-v1", (*FEED_FORWARD, "--async_rl=False")),
}
CASES = pytest.mark.parametrize("case", SESSIONS)
REPEATED = ("GRU, inference in policy workers, two splits", "two policies", "sync")


# Whoever resumes bit for bit repeats bit for bit, too; a few say so without the detour.
@pytest.mark.parametrize(
    "case", [c if c in REPEATED else pytest.param(c, marks=pytest.mark.long) for c in SESSIONS]
)
def test_the_same_seed_gives_the_same_weights(tmp_path: Path, case: str):
    env, flags = SESSIONS[case]
    for experiment in ("first", "second"):
        train_serially(tmp_path, env, *flags, "--seed=3", "--train_for_env_steps=600", experiment=experiment)
    assert same_weights(weights(tmp_path, "first"), weights(tmp_path, "second"))


def test_the_same_seed_gives_the_same_weights_with_several_agents_too(tmp_path: Path):
    flags = (*FEED_FORWARD, "--num_policies=2", "--seed=3", "--train_for_env_steps=600")
    for experiment in ("first", "second"):
        train_serially(tmp_path, "double_two_agents", *flags, experiment=experiment)
    for policy_id in (0, 1):
        assert same_weights(weights(tmp_path, "first", policy_id), weights(tmp_path, "second", policy_id))


def test_another_seed_gives_other_weights(tmp_path: Path):
    for seed in (3, 4):
        flags = (*FEED_FORWARD, f"--seed={seed}", "--train_for_env_steps=300")
        train_serially(tmp_path, "gym_CartPole-v1", *flags, experiment=str(seed))
    assert not same_weights(weights(tmp_path, "3"), weights(tmp_path, "4"))


@CASES
def test_training_in_two_sessions_gives_the_weights_of_training_in_one(tmp_path: Path, case: str):
    env, flags = SESSIONS[case]
    flags = (*flags, "--seed=3")
    train_serially(tmp_path, env, *flags, "--train_for_env_steps=1200", experiment="whole")
    train_serially(tmp_path, env, *flags, "--train_for_env_steps=600", experiment="parts")
    half = latest(tmp_path, "parts")
    train_serially(tmp_path, env, *flags, "--train_for_env_steps=1200", experiment="parts")
    whole, parts = latest(tmp_path, "whole"), latest(tmp_path, "parts")
    assert 0 < half.policy_version < parts.policy_version
    assert (parts.policy_version, parts.env_steps) == (whole.policy_version, whole.env_steps)
    assert same_weights(parts.state["model"], whole.state["model"])
    assert parts.state["optimizer"]["state"][0]["exp_avg"].equal(
        whole.state["optimizer"]["state"][0]["exp_avg"]
    )


def test_both_policies_of_two_resume_bit_for_bit(tmp_path: Path):
    flags = (*FEED_FORWARD, "--num_policies=2", "--seed=3")
    train_serially(tmp_path, "gym_CartPole-v1", *flags, "--train_for_env_steps=1200", experiment="whole")
    for target in (600, 1200):
        train_serially(
            tmp_path, "gym_CartPole-v1", *flags, f"--train_for_env_steps={target}", experiment="parts"
        )
    for policy_id in (0, 1):
        assert same_weights(weights(tmp_path, "parts", policy_id), weights(tmp_path, "whole", policy_id))


class UnrepeatableEnv(gymnasium.Env):
    """Observes how many environments like it were ever stepped: no replay brings that back."""

    observation_space = gymnasium.spaces.Box(0.0, 1e9, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return [float(UnrepeatableEnv.steps)], {}

    def step(self, action):
        UnrepeatableEnv.steps += 1
        return [float(UnrepeatableEnv.steps)], 1.0, UnrepeatableEnv.steps % 50 == 0, False, {}


def test_an_environment_that_cannot_be_replayed_resumes_with_new_episodes(tmp_path: Path):
    register_env("unrepeatable", lambda name, cfg=None, env_config=None: UnrepeatableEnv())
    for target in (300, 600):
        status = train_serially(
            tmp_path, "unrepeatable", *FEED_FORWARD, "--seed=3", f"--train_for_env_steps={target}"
        )
        assert status == 0
    assert latest(tmp_path).env_steps > 600


def test_a_damaged_serial_state_costs_exactness_not_the_session(tmp_path: Path):
    flags = (*FEED_FORWARD, "--seed=3")
    train_serially(tmp_path, "gym_CartPole-v1", *flags, "--train_for_env_steps=300")
    before = latest(tmp_path)
    path = tmp_path / "experiment" / "serial_state.pth"
    path.write_bytes(path.read_bytes()[:-100])
    assert train_serially(tmp_path, "gym_CartPole-v1", *flags, "--train_for_env_steps=600") == 0
    assert latest(tmp_path).policy_version > before.policy_version
