"""Suites: which environments, configurations and seeds make up a benchmark, and how its runs are scored.

`benchmark run NAME` starts one. Users write their own as YAML files (`suite_files`). Invariant: a suite is
plain data; the commands it stands for depend on nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.run_record import ALGO_LABEL_VARIABLE
from sample_factory.envs.atari.games import GAMES
from sample_factory.envs.atari.games import PREFIX as ATARI_PREFIX
from sample_factory.runner.bundles import bundle_envs
from sample_factory.runner.description_files import DEFAULT_COMMAND
from sample_factory.runner.run_description import Experiment, RunDescription
from sample_factory.runner.target_flags import target_flags

WRAP_COMMAND = "python -m sample_factory.benchmark wrap"
SCRIPT_KEY = "script"

Params = dict[str, Any]


@dataclass(frozen=True)
class Scoring:
    """How finished runs are scored.

    Attributes:
        episodes: played by the final policy; 0 leaves it at the last training episodes.
        checkpoint: "latest" or "best".
        deterministic: take the most likely action instead of sampling.
        tag: what training scores are, where they are not the episode reward.
    """

    episodes: int = 50
    checkpoint: str = "latest"
    deterministic: bool = False
    tag: str | None = None


@dataclass(frozen=True)
class Suite:
    """One benchmark.

    Attributes:
        name: of the run's directory.
        about: one line for people.
        envs: environments.
        seeds: of every configuration on every environment.
        algos: settings of each configuration by its label; with the key `script` it is a script to wrap.
        params: settings of all of them.
        per_env: settings of one environment.
        references: scores that count as 0 and 1: `{env: {"random": x, "expert": y}}`.
        expected_minutes: of one run, to be shown before starting.
    """

    name: str
    envs: Sequence[str]
    seeds: Sequence[int] = tuple(range(10))
    about: str = ""
    algos: Mapping[str, Params] = field(default_factory=lambda: {"APPO": {}})
    params: Params = field(default_factory=dict)
    per_env: Mapping[str, Params] = field(default_factory=dict)
    command: str = DEFAULT_COMMAND
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    scoring: Scoring = field(default_factory=Scoring)
    expected_minutes: float | None = None

    @property
    def wraps_scripts(self) -> bool:
        """Whether its runs are wrapped scripts, which score themselves."""
        return any(SCRIPT_KEY in params for params in self.algos.values())

    @property
    def num_runs(self) -> int:
        """How many there are."""
        return len(self.algos) * len(self.envs) * len(self.seeds)

    def restricted(
        self,
        envs: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        algos: Sequence[str] | None = None,
    ) -> Suite:
        """A part of the suite, or the suite on other environments and seeds.

        Raises:
            BenchmarkError: a configuration does not exist.
        """
        unknown = [label for label in algos or () if label not in self.algos]
        if unknown:
            raise BenchmarkError(f"--algos={unknown[0]} is not in the suite; it has {', '.join(self.algos)}.")
        chosen = {label: self.algos[label] for label in algos} if algos else self.algos
        return replace(self, envs=envs or self.envs, seeds=seeds or self.seeds, algos=chosen)

    def description(self) -> RunDescription:
        """What the runner launches; every configuration is a group of experiments.

        Raises:
            BenchmarkError: scripts and training are mixed.
            RunnerError: a setting does not exist or has a wrong value.
        """
        if self.wraps_scripts and not all(SCRIPT_KEY in params for params in self.algos.values()):
            raise BenchmarkError("a suite runs either scripts or training; put them into two files.")
        experiments = [self._experiment(label, params) for label, params in self.algos.items()]
        if self.wraps_scripts:
            return RunDescription(
                self.name,
                experiments,
                experiment_dirs_sf_format=False,
                experiment_arg_name="--bench_name",
                experiment_dir_arg_name="--bench_out",
            )
        return RunDescription(self.name, experiments)

    def _experiment(self, label: str, params: Params) -> Experiment:
        script = params.get(SCRIPT_KEY)
        command = f"{WRAP_COMMAND} {shlex.quote(str(script))}" if script else self.command
        own = {key: value for key, value in params.items() if key != SCRIPT_KEY}
        named = [{"seed": seed, "env": env} for seed in self.seeds for env in self.envs]
        complete = []
        for pair in named:
            env = str(pair["env"])
            flags = target_flags(command, str({**self.params, **own}.get("algo", "APPO")), env)
            others = {**self.params, **own, **self.per_env.get(env, {})}
            complete.append({**pair, **{key: flags.check(key, value) for key, value in others.items()}})
        return Experiment(
            label, command, complete, {ALGO_LABEL_VARIABLE: label}, named_params=("seed", "env")
        )


_DOOM_SEEDS = (0, 1111, 2222, 3333, 4444, 5555, 6666, 7777, 8888, 9999)
_MUJOCO = ("hopper", "walker", "halfcheetah", "ant", "humanoid", "swimmer", "doublependulum")

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            name="doom_basic",
            about="the six basic Doom environments of the paper, 500M frames each",
            envs=tuple(bundle_envs("doom/basic")),
            seeds=_DOOM_SEEDS,
            params={
                "train_for_env_steps": 500_000_000,
                "env_frameskip": 4,
                "use_rnn": True,
                "num_workers": 36,
                "num_envs_per_worker": 8,
                "num_policies": 1,
                "ppo_epochs": 1,
                "rollout": 32,
                "recurrence": 32,
                "batch_size": 2048,
                "wide_aspect_ratio": False,
            },
            expected_minutes=70,
        ),
        Suite(
            name="atari",
            about="57 games, 10M steps each, human-normalised",
            envs=tuple(ATARI_PREFIX + game for game in GAMES),
            seeds=tuple(range(5)),
            params={"train_for_env_steps": 40_000_000, "num_workers": 16, "num_envs_per_worker": 16},
            expected_minutes=60,
        ),
        Suite(
            name="mujoco",
            about="seven continuous-control tasks, 10M frames each",
            envs=tuple(f"mujoco_{task}" for task in _MUJOCO),
            params={"train_for_env_steps": 10_000_000, "num_workers": 8, "num_envs_per_worker": 8},
            expected_minutes=30,
        ),
        Suite(
            name="dmlab_30",
            about="all 30 levels in one multi-task policy; the capped human-normalised score",
            envs=("dmlab_30",),
            seeds=tuple(range(3)),
            params={
                "train_for_env_steps": 10_000_000_000,
                "num_workers": 90,
                "num_envs_per_worker": 12,
                "rollout": 32,
                "recurrence": 32,
                "batch_size": 2048,
                "max_grad_norm": 0.0,
                "encoder_custom": "dmlab_instructions",
                "encoder_type": "resnet",
                "encoder_subtype": "resnet_impala",
                "encoder_extra_fc_layers": 1,
                "hidden_size": 256,
                "nonlinearity": "relu",
                "rnn_type": "lstm",
                "dmlab_extended_action_set": True,
                "dmlab_one_task_per_worker": True,
                "max_policy_lag": 35,
            },
            references={"dmlab_30": {"random": 0.0, "expert": 100.0}},
            scoring=Scoring(episodes=0, tag="_dmlab/000_capped_mean_human_norm_score"),
            expected_minutes=7 * 24 * 60,
        ),
        Suite(
            name="classic",
            about="three classic-control tasks that a laptop trains in minutes, with and without memory",
            envs=("gym_CartPole-v1", "gym_Acrobot-v1", "gym_Pendulum-v1"),
            seeds=tuple(range(5)),
            algos={"APPO": {"use_rnn": False}, "APPO_rnn": {"use_rnn": True}},
            params={
                "train_for_env_steps": 500_000,
                "device": "cpu",
                "num_workers": 2,
                "num_envs_per_worker": 8,
                "batch_size": 512,
                "rollout": 32,
                "encoder_type": "mlp",
                "encoder_subtype": "mlp_mujoco",
                "hidden_size": 64,
                "learning_rate": 0.001,
                "reward_scale": 0.1,
                "normalize_input": True,
                "experiment_summaries_interval": 5,
            },
            per_env={"gym_Pendulum-v1": {"gamma": 0.9, "reward_scale": 0.01, "ppo_epochs": 4}},
            # A random policy over 100 episodes; the thresholds at which gymnasium calls a task solved (for
            # Pendulum, which has none, what good policies reach).
            references={
                "gym_CartPole-v1": {"random": 22.0, "expert": 475.0},
                "gym_Acrobot-v1": {"random": -497.0, "expert": -100.0},
                "gym_Pendulum-v1": {"random": -1207.0, "expert": -150.0},
            },
            expected_minutes=1.5,
        ),
    )
}
