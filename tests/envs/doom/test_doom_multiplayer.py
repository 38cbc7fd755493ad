"""Matches on the real engine: lock step, bots, time, broken engines."""

import os
import signal
import socket

import numpy as np
import psutil
import pytest

from sample_factory.envs.contract import (
    EXTRA_STATS,
    IS_ACTIVE,
    NUM_FRAMES,
    TRUE_REWARD,
    RewardShaping,
    find_interface,
)
from sample_factory.envs.doom.match import MatchRules, Seat, first_port, reserve_port

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("scenarios")]


def random_actions(env):
    return [env.action_space.sample() for _ in range(env.num_agents)]


def engine_pids():
    return sorted(child.pid for child in psutil.Process().children() if child.name() == "vizdoom")


def test_two_agents_see_every_frame_of_a_duel_at_the_same_time(make_doom):
    env = make_doom("doom_duel")
    env.reset(seed=0)
    begin = env.players[0].unwrapped.game.get_episode_time()
    for step in range(1, 101):
        *_, infos = env.step(random_actions(env))
        times = {player.unwrapped.game.get_episode_time() for player in env.players}
        assert times == {begin + 4 * step}
        assert [info[NUM_FRAMES] for info in infos] == [4, 4]


def test_agents_of_a_match_have_views_of_their_own(make_doom):
    env = make_doom("doom_duel")
    (first, second), _ = env.reset(seed=0)
    assert not np.array_equal(first["obs"], second["obs"])


def test_a_match_ends_with_its_time_and_the_next_one_begins(make_doom):
    env = make_doom("doom_duel", timelimit=0.05)  # 105 frames: 26 steps of 4 and one of 1
    env.reset(seed=0)
    for _ in range(26):
        _, _, terminated, truncated, _ = env.step(random_actions(env))
        assert not any(terminated + truncated)
    _, _, terminated, truncated, infos = env.step(random_actions(env))
    assert (terminated, truncated) == ([False, False], [True, True])
    assert [info[NUM_FRAMES] for info in infos] == [1, 1]
    assert all(info[TRUE_REWARD] in (0.0, 1.0) for info in infos)
    assert {"FRAGCOUNT", "KDR", "FINAL_PLACE", "LEADER_GAP"} <= set(infos[0][EXTRA_STATS])
    assert all(player.unwrapped.game.get_episode_time() < 10 for player in env.players)
    *_, infos = env.step(random_actions(env))
    assert [info[NUM_FRAMES] for info in infos] == [4, 4]


def test_a_match_with_a_dead_engine_is_cut_off_and_played_anew(make_doom):
    env = make_doom("doom_duel")
    env.reset(seed=0)
    env.step(random_actions(env))
    os.kill(engine_pids()[0], signal.SIGKILL)
    _, rewards, terminated, truncated, infos = env.step(random_actions(env))
    assert (rewards, terminated, truncated) == ([0.0, 0.0], [False, False], [True, True])
    assert [info[IS_ACTIVE] for info in infos] == [False, False]
    *_, infos = env.step(random_actions(env))
    assert [info[NUM_FRAMES] for info in infos] == [4, 4]


def test_a_mistake_in_a_wrapper_is_not_taken_for_a_broken_match(make_doom):
    env = make_doom("doom_duel")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="zip"):
        env.step([(0, 0), (0, 0)])  # too few heads


def test_bots_of_the_curriculum_join_the_match(make_doom):
    env = make_doom("doom_deathmatch_bots", timelimit=0.05, start_bot_difficulty=40)
    env.reset(seed=0)
    *_, info = env.step(env.action_space.sample())
    *_, info = env.step(env.action_space.sample())
    assert info["PLAYER_COUNT"] == 8.0  # the engine ignores names it does not know
    truncated = False
    while not truncated:
        *_, truncated, info = env.step(env.action_space.sample())
    assert info[EXTRA_STATS]["bot_difficulty"] == 40.0
    assert info[TRUE_REWARD] == info["FRAGCOUNT"]


def test_bots_come_back_to_the_next_match(make_doom):
    env = make_doom("doom_duel_bots", timelimit=0.02)
    for _ in range(3):
        env.reset()
        for _ in range(3):
            *_, info = env.step(env.action_space.sample())
        assert info["PLAYER_COUNT"] == 2.0


def test_the_number_of_agents_and_bots_follows_the_flags(make_doom):
    env = make_doom("doom_deathmatch_full", num_agents=2, num_bots=1)
    env.reset(seed=0)
    for _ in range(3):
        *_, infos = env.step(random_actions(env))
    assert len(infos) == 2
    assert infos[0]["PLAYER_COUNT"] == 3.0


def test_every_agent_of_a_match_has_a_reward_shaping_of_its_own(make_doom):
    env = make_doom("doom_duel")
    shaping = find_interface(env, RewardShaping)
    shaping.set_reward_shaping({"delta": {}, "selected_weapon": {}}, 1)
    assert shaping.get_current_reward_shaping(0) == shaping.get_default_reward_shaping()
    assert shaping.get_current_reward_shaping(1) == {"delta": {}, "selected_weapon": {}}


def test_the_first_port_differs_between_environments(monkeypatch):
    monkeypatch.setenv("DOOM_DEFAULT_UDP_PORT", "50000")
    assert first_port(worker_index=3, vector_index=7) == 50307


def test_a_port_in_use_is_passed_over():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        with reserve_port(port) as free:
            assert free != port
            assert (free - port) % 1000 in (0, 512)  # it wraps around at the end of the range


def test_a_reserved_port_is_not_given_out_twice():
    with reserve_port(41999) as first, reserve_port(41999) as second:
        assert first != second


def test_a_match_keeps_seats_for_humans():
    arguments = Seat(MatchRules(local_players=2, humans=1, respawn_delay_sec=2), player=0).arguments(40300)
    assert arguments.startswith("-host 3 -port 40300 -deathmatch")
    assert "+viz_respawn_delay 2" in arguments
