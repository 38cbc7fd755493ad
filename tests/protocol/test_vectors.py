"""What the three vectors write into rows and masks, step by step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.envs.batched import GymnasiumBatchedEnv
from sample_factory.envs.batched_vector import BatchedVector
from sample_factory.envs.multi_agent_vector import MultiAgentVector
from sample_factory.envs.vector import EnvVector, ObsRows, SingleAgentVector

ROWS = 64


class LiteralEnv(gymnasium.Env):
    """Observes 10 times the episode's number plus the step; ends at its third step as it is told to."""

    observation_space = spaces.Box(0, 1000, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, terminated: bool, truncated: bool):
        self.end = terminated, truncated
        self.episode = self.count = self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.episode += 1
        self.count = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        self.count += 1
        terminated, truncated = self.end if self.count == 3 else (False, False)
        info = {"num_frames": 4, "true_reward": 50.0 + self.episode, "episode_extra_stats": {"kills": 2}}
        return self._obs(), float(self.count), terminated, truncated, info

    def _obs(self) -> np.ndarray:
        return np.array([10 * self.episode + self.count], np.float32)


class Tape:
    """Rows of a vector, and what each step said."""

    def __init__(self, vector: EnvVector, obs_size: int = 1):
        self.vector = vector
        agents = vector.num_agents
        self.obs = np.zeros((agents, ROWS, obs_size), np.float32)
        self.rows = ObsRows({"obs": self.obs}, np.arange(agents))
        self.steps: list[dict[str, list[Any]]] = []
        self.episodes: list[Any] = []
        vector.reset(self.rows)

    def step(self, actions: Any) -> None:
        step = self.vector.step(actions, self.rows, len(self.steps) + 1)
        names = ("rewards", "dones", "time_outs", "valids", "frames")
        self.steps.append({name: getattr(step, name).tolist() for name in names})
        self.episodes += step.episodes

    def column(self, name: str, agent: int = 0) -> list[Any]:
        return [step[name][agent] for step in self.steps]

    def observed(self, agent: int = 0) -> list[float]:
        return self.obs[agent, : len(self.steps) + 1, 0].tolist()


def single(terminated: bool, truncated: bool, **options: Any) -> tuple[Tape, LiteralEnv]:
    env = LiteralEnv(terminated, truncated)
    tape = Tape(SingleAgentVector([env], [0], **options))
    for _ in range(7):
        tape.step([1])
    return tape, env


def test_the_row_after_a_time_out_holds_the_final_observation_and_the_reset_takes_a_step() -> None:
    tape, env = single(terminated=False, truncated=True)
    assert tape.observed() == [10, 11, 12, 13, 20, 21, 22, 23]
    assert tape.column("dones") == [False, False, False, True, False, False, False]
    assert tape.column("valids") == [True, True, True, False, True, True, True]
    assert tape.column("rewards") == [1, 2, 3, 0, 1, 2, 3]
    assert tape.column("frames") == [4, 4, 4, 0, 4, 4, 4]
    assert tape.column("time_outs") == [False] * 7  # the final observation is known
    assert env.steps == 6


@pytest.mark.parametrize("truncated", [False, True])
def test_a_termination_is_followed_at_once_by_the_next_episode(truncated: bool) -> None:
    tape, env = single(terminated=True, truncated=truncated)
    assert tape.observed() == [10, 11, 12, 20, 21, 22, 30, 31]
    assert tape.column("dones") == [False, False, True, False, False, True, False]
    assert tape.column("valids") == [True] * 7
    assert tape.column("rewards") == [1, 2, 3, 1, 2, 3, 1]
    assert env.steps == 7


def test_a_time_out_counts_as_a_termination_when_it_is_not_bootstrapped() -> None:
    tape, _ = single(terminated=False, truncated=True, bootstrap_time_outs=False)
    assert tape.observed() == [10, 11, 12, 20, 21, 22, 30, 31]
    assert tape.column("dones") == [False, False, True, False, False, True, False]
    assert tape.column("valids") == [True] * 7


@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True)])
def test_an_episode_is_reported_once_with_its_return_and_frames(terminated: bool, truncated: bool) -> None:
    tape, _ = single(terminated, truncated)
    told = [(e.agent_index, e.reward, e.true_reward, e.length_frames, dict(e.extra)) for e in tape.episodes]
    assert told == [(0, 6.0, 51.0, 12, {"kills": 2}), (0, 6.0, 52.0, 12, {"kills": 2})]


class LiteralTeam(gymnasium.Env):
    """Two agents: the first times out every third step, the second is inactive in every other."""

    observation_space = spaces.Box(0, 1000, (1,), np.float32)
    action_space = spaces.Discrete(2)
    num_agents = 2
    is_multiagent = True

    def __init__(self) -> None:
        self.count = 0

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[list, list]:
        return self._obs(), [{}, {}]

    def step(self, actions: Any) -> tuple[list, list, list, list, list]:  # type: ignore[override]
        self.count += 1
        infos = [{"num_frames": 2}, {"num_frames": 2, "is_active": self.count % 2 == 0}]
        return self._obs(), [1.0, 5.0], [False, self.count == 5], [self.count % 3 == 0, False], infos

    def _obs(self) -> list[np.ndarray]:
        return [np.array([100 * agent + self.count], np.float32) for agent in range(2)]


def test_agents_of_one_environment_have_masks_of_their_own() -> None:
    tape = Tape(MultiAgentVector([LiteralTeam()], [0]))
    for _ in range(6):
        tape.step([0, 0])
    assert tape.observed(0) == [0, 1, 2, 3, 4, 5, 6]
    assert tape.observed(1) == [100, 101, 102, 103, 104, 105, 106]
    assert tape.column("dones", 0) == tape.column("time_outs", 0) == [False, False, True] * 2
    assert tape.column("dones", 1) == [False, False, False, False, True, False]
    assert tape.column("time_outs", 1) == [False] * 6
    assert tape.column("valids", 0) == [True] * 6
    assert tape.column("valids", 1) == [False, True] * 3
    assert tape.column("frames", 0) == [2] * 6
    assert tape.column("frames", 1) == [0, 2] * 3


def cart_poles(limit: int, batched: bool) -> Tape:
    def make() -> gymnasium.Env:
        return gymnasium.make("CartPole-v1", max_episode_steps=limit)

    if batched:
        return Tape(BatchedVector(GymnasiumBatchedEnv(gymnasium.vector.SyncVectorEnv([make] * 3)), 7), 4)
    return Tape(SingleAgentVector([make() for _ in range(3)], [7, 8, 9]), 4)


def test_a_batched_vector_has_the_masks_and_rows_of_the_loop_where_episodes_time_out() -> None:
    loop, batch = cart_poles(5, batched=False), cart_poles(5, batched=True)
    for t in range(40):
        for tape in (loop, batch):
            tape.step(np.array([t % 2, (t + 1) % 2, t // 2 % 2]))
    assert batch.steps == loop.steps
    assert np.array_equal(batch.obs, loop.obs)
    assert [vars(e) for e in batch.episodes] == [vars(e) for e in loop.episodes]
    assert len(loop.episodes) > 15


def valid_steps(tape: Tape, agent: int) -> list[tuple[Any, ...]]:
    """What was observed, paid and ended in the steps that count."""
    found = []
    for t, step in enumerate(tape.steps):
        if step["valids"][agent]:
            seen = tuple(tape.obs[agent, t].tolist())
            found.append((seen, step["rewards"][agent], step["dones"][agent], step["frames"][agent]))
    return found


def test_a_batched_vector_has_the_steps_of_the_loop_where_episodes_terminate() -> None:
    """It resets one step later, but that step is masked: what can be trained on is the same."""
    loop, batch = cart_poles(500, batched=False), cart_poles(500, batched=True)
    for _ in range(60):
        loop.step(np.ones(3, np.int64))
        batch.step(np.ones(3, np.int64))
    for agent in range(3):
        steps = valid_steps(batch, agent)
        assert len(steps) < 60
        assert steps == valid_steps(loop, agent)[: len(steps)]
        assert sum(done for _, _, done, _ in steps) >= 4


def test_a_row_that_a_batched_vector_masks_ends_an_episode_and_costs_nothing() -> None:
    tape = cart_poles(500, batched=True)
    for _ in range(30):
        tape.step(np.ones(3, np.int64))
    masked = [step for step in tape.steps if not all(step["valids"])]
    assert masked
    for step in masked:
        for agent in np.flatnonzero(~np.array(step["valids"])):
            assert (step["dones"][agent], step["rewards"][agent], step["frames"][agent]) == (True, 0.0, 0)


def test_warming_up_leaves_the_environments_at_different_places_in_running_episodes() -> None:
    envs = [LiteralEnv(terminated=True, truncated=False) for _ in range(3)]
    tape = Tape(SingleAgentVector(envs, [0, 1, 2]))
    beats = []
    tape.vector.warm_up([0, 2, 4], tape.rows, lambda: beats.append(1))
    assert tape.obs[:, 0, 0].tolist() == [10, 12, 21]
    assert len(beats) == 3


class PictureEnv(gymnasium.Env):
    """Observes pictures in which every pixel says where it is, and how many steps it took."""

    observation_space = spaces.Box(0, 255, (3, 4, 5), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, as_dict: bool = False):
        self.steps, self._as_dict = 0, as_dict
        if as_dict:
            self.observation_space = spaces.Dict(obs=self.observation_space, speed=spaces.Box(0, 9, (1,)))

    @staticmethod
    def picture(step: int) -> np.ndarray:
        return (np.arange(60, dtype=np.uint8) + step).reshape(3, 4, 5)

    def _obs(self) -> Any:
        seen = self.picture(self.steps)
        return {"obs": seen, "speed": np.array([self.steps], np.float32)} if self._as_dict else seen

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        self.steps = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.steps += 1
        return self._obs(), 0.0, False, False, {}


class TwoPictures:
    """Two agents that see the same."""

    num_agents, is_multiagent = 2, True
    observation_space, action_space = PictureEnv.observation_space, PictureEnv.action_space

    def __init__(self) -> None:
        self.unwrapped = self
        self.steps = 0

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[list, list]:
        return [PictureEnv.picture(0)] * 2, [{}, {}]

    def step(self, actions: Any) -> tuple[list, list, list, list, list]:
        self.steps += 1
        return [PictureEnv.picture(self.steps)] * 2, [0.0] * 2, [False] * 2, [False] * 2, [{}, {}]


def picture_vectors() -> dict[str, EnvVector]:
    pool = gymnasium.vector.SyncVectorEnv(
        [PictureEnv, PictureEnv], autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP
    )
    return {
        "single": SingleAgentVector([PictureEnv(), PictureEnv()], [0, 1]),
        "dict": SingleAgentVector([PictureEnv(as_dict=True), PictureEnv(as_dict=True)], [0, 1]),
        "multi": MultiAgentVector([TwoPictures()], [0]),
        "batched": BatchedVector(GymnasiumBatchedEnv(pool), 0),
    }


@pytest.mark.parametrize("kind", ["single", "dict", "multi", "batched"])
def test_pictures_are_turned_while_they_are_written(kind: str) -> None:
    vector = picture_vectors()[kind]
    arrays = {"obs": np.zeros((3, 4, 4, 5, 3), np.uint8)}
    if kind == "dict":
        arrays["speed"] = np.zeros((3, 4, 1), np.float32)
    rows = ObsRows(arrays, np.array([2, 0]), turned=frozenset({"obs"}))
    vector.reset(rows)
    for row in (1, 2):
        vector.step(np.array([1, 1]), rows, row)
    for slot in (2, 0):
        for row in range(3):
            assert np.array_equal(arrays["obs"][slot, row].transpose(2, 0, 1), PictureEnv.picture(row))
    assert not arrays["obs"][1].any()
