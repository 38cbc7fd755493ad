"""Trains by self-play: two agents of one game, played by the policies that are being trained.

    python -m sample_factory_examples.train_rock_paper_scissors --algo=APPO --env=weighted_rps

In this rock-paper-scissors a cut of the scissors counts twice. The only strategy that nobody can exploit
plays rock half of the time, paper and scissors a quarter each. Always answering the last winner goes round in
circles; entropy (`--exploration_loss_coeff`) and plain small steps bring self-play to the middle of them.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.registry import register_env
from sample_factory.run_algorithm import run_algorithm

# What the row player gets: rock, paper, scissors against rock, paper, scissors.
PAYOFFS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -2.0], [-1.0, 2.0, 0.0]])
EQUILIBRIUM = (0.5, 0.25, 0.25)

ListStep = tuple[list[np.ndarray], list[float], list[bool], list[bool], list[dict[str, Any]]]


class WeightedRockPaperScissors(gymnasium.Env[Any, Any]):
    """Two agents choose at the same time; one round is an episode."""

    num_agents = 2
    is_multiagent = True
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)  # there is nothing to see
    action_space = spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[np.ndarray], Any]:
        """Starts a round."""
        super().reset(seed=seed)
        return self._observe(), [{}, {}]

    def step(self, actions: list[int]) -> ListStep:  # type: ignore[override]  # lists: one entry per agent
        """Plays a round; the next one begins at once."""
        gain = float(PAYOFFS[int(actions[0]), int(actions[1])])
        return self._observe(), [gain, -gain], [True, True], [False, False], [{}, {}]

    def _observe(self) -> list[np.ndarray]:
        return [np.ones(1, np.float32) for _ in range(self.num_agents)]


def make_weighted_rps(
    full_env_name: str, cfg: Config | None = None, env_config: EnvConfig | None = None
) -> WeightedRockPaperScissors:
    """Makes one environment."""
    return WeightedRockPaperScissors()


def override_weighted_rps_defaults(env_name: str, parser: ArgumentParser) -> None:
    """Defaults that suit this environment; what is typed still wins."""
    parser.set_defaults(
        encoder_type="mlp",
        encoder_subtype="mlp_mujoco",
        encoder_extra_fc_layers=0,
        hidden_size=16,
        use_rnn=False,
        rollout=8,
        recurrence=8,
        batch_size=256,
        num_envs_per_worker=32,
        # Plain small steps: momentum, and Adam's steps of constant length, keep strategies circling.
        adam_eps=1.0,
        adam_beta1=0.0,
        learning_rate=0.05,
        lr_schedule="linear_decay",
        exploration_loss_coeff=0.2,
        ppo_clip_ratio=0.2,
    )


def register_custom_components() -> None:
    """Makes the environment known; training and evaluation both need it."""
    register_env(
        "weighted_rps", make_weighted_rps, override_default_params_func=override_weighted_rps_defaults
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Trains as the command line says; returns the exit status."""
    register_custom_components()
    return run_algorithm(parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
