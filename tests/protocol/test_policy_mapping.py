from __future__ import annotations

import numpy as np
import pytest

from sample_factory.algorithms.appo.policy_mapping import EPISODES_PER_DRAW, PolicyMapping


def test_policies_are_drawn_uniformly_per_agent() -> None:
    mapping = PolicyMapping(num_envs=1500, agents_per_env=2, num_policies=3, seed=1)
    counts = np.bincount(mapping.policies, minlength=3)
    assert counts.sum() == 3000
    assert (abs(counts - 1000) < 150).all()
    pairs = mapping.policies.reshape(-1, 2)
    assert (pairs[:, 0] != pairs[:, 1]).any()


def test_without_mixing_all_agents_of_an_environment_have_one_policy() -> None:
    mapping = PolicyMapping(num_envs=50, agents_per_env=3, num_policies=4, mix=False, seed=2)
    teams = mapping.policies.reshape(-1, 3)
    assert (teams == teams[:, :1]).all()
    assert len(np.unique(teams)) == 4


def test_an_agent_changes_only_when_one_of_its_own_episodes_ends() -> None:
    mapping = PolicyMapping(num_envs=4, agents_per_env=2, num_policies=5, seed=3)
    for _ in range(200):
        before = mapping.policies.copy()
        mapping.episodes_ended([1, 6])
        others = [0, 2, 3, 4, 5, 7]
        assert (mapping.policies[others] == before[others]).all()


def test_a_new_draw_comes_after_ten_episodes_of_every_agent() -> None:
    mapping = PolicyMapping(num_envs=1, agents_per_env=2, num_policies=1000, seed=4)
    first = mapping.policies.copy()
    for _ in range(EPISODES_PER_DRAW - 1):
        mapping.episodes_ended([0, 1])
    assert (mapping.policies == first).all()
    mapping.episodes_ended([0, 1])
    assert (mapping.policies != first).all()


def test_an_agent_whose_team_was_drawn_anew_changes_at_its_next_end() -> None:
    mapping = PolicyMapping(num_envs=1, agents_per_env=2, num_policies=1000, seed=5)
    first = mapping.policies.copy()
    for _ in range(2 * EPISODES_PER_DRAW):
        mapping.episodes_ended([0])
    assert mapping.policies[1] == first[1]
    mapping.episodes_ended([1])
    assert mapping.policies[1] != first[1]


@pytest.mark.parametrize(("first", "expected"), [(0, [0, 0, 1, 1, 2, 2]), (2, [2, 2, 0, 0, 1, 1])])
def test_fixed_environments_belong_to_policies_in_turn_for_good(first: int, expected: list[int]) -> None:
    mapping = PolicyMapping(num_envs=3, agents_per_env=2, num_policies=3, fixed_from=first)
    assert mapping.policies.tolist() == expected
    for _ in range(100):
        mapping.episodes_ended([0, 3, 5])
    assert mapping.policies.tolist() == expected


def test_the_same_seed_draws_the_same_policies() -> None:
    def history(seed: int) -> list[list[int]]:
        mapping = PolicyMapping(num_envs=3, agents_per_env=1, num_policies=10, seed=seed)
        found = []
        for _ in range(60):
            mapping.episodes_ended([0, 2])
            found.append(mapping.policies.tolist())
        return found

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_a_restored_mapping_goes_on_with_the_same_draws() -> None:
    mapping = PolicyMapping(num_envs=2, agents_per_env=1, num_policies=10, seed=1)
    for _ in range(15):
        mapping.episodes_ended([0, 1])
    copy = PolicyMapping(num_envs=2, agents_per_env=1, num_policies=10, seed=2)
    copy.load_state_dict(mapping.state_dict())
    for _ in range(50):
        mapping.episodes_ended([0, 1])
        copy.episodes_ended([0, 1])
        assert copy.policies.tolist() == mapping.policies.tolist()
