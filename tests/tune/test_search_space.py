"""Search spaces: what may be written, what a trial gets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.target_flags import TargetFlags, target_flags
from sample_factory.tune.flags import parse_command_line
from sample_factory.tune.objective import Objective, read_targets
from sample_factory.tune.space import load_space, parse_space
from sample_factory.tune.spaces import SPACES

TRAINER = target_flags("python -m sample_factory.algorithms.appo.train_appo", "APPO", "gym_CartPole-v1")
ANYTHING = TargetFlags()


class FixedTrial:
    """Answers with given values and remembers what it was asked."""

    def __init__(self, **values: Any):
        self.values = values
        self.asked: list[str] = []

    def _answer(self, name: str, *_bounds: Any, **_options: Any) -> Any:
        self.asked.append(name)
        return self.values[name]

    suggest_float = suggest_int = suggest_categorical = _answer


def test_a_setting_is_asked_for_only_when_its_condition_holds():
    space = parse_space(
        {"use_rnn": [True, False], "rnn_type": {"values": ["gru", "lstm"], "when": {"use_rnn": True}}},
        TRAINER,
    )
    trial = FixedTrial(use_rnn=False, rnn_type="lstm")
    assert space.suggest(trial, {}) == {"use_rnn": False}
    assert space.suggest(FixedTrial(use_rnn=True, rnn_type="lstm"), {}) == {
        "use_rnn": True,
        "rnn_type": "lstm",
    }


def test_the_default_configuration_leaves_out_what_no_trial_could_have():
    space = parse_space({"gamma": [0.9, 0.95], "learning_rate": {"low": 1e-5, "high": 1e-2}}, TRAINER)
    assert space.defaults({"gamma": 0.99, "learning_rate": 1e-4}) == {"learning_rate": 1e-4}


def test_a_grid_has_every_configuration_once_and_respects_conditions():
    space = parse_space(
        {
            "use_rnn": [True, False],
            "rnn_type": {"values": ["gru", "lstm"], "when": {"use_rnn": True}},
            "rollout": {"type": "int", "low": 16, "high": 48, "step": 16},
        },
        TRAINER,
    )
    grid = space.grid({})
    assert len(grid) == 2 * 3 + 1 * 3
    assert {entry["rollout"] for entry in grid} == {16, 32, 48}


@pytest.mark.parametrize("name", SPACES)
def test_the_spaces_that_come_along_are_settings_of_the_trainer(name):
    assert load_space(name, TRAINER).names == list(SPACES[name])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"learnin_rate": [1e-3]}, "did you mean learning_rate"),
        ({"gamma": {"low": 0.9}}, "needs `low` and `high`"),
        ({"gamma": {"low": 0.99, "high": 0.9}}, "is no range"),
        ({"gamma": {"low": 0.0, "high": 0.9, "log": True}}, "is no range"),
        ({"gamma": {"lo": 0.9}}, "must be a list of values"),
        ({"batch_size": {"type": "int", "low": "many", "high": 2}}, "needs `low` and `high`"),
        ({"rnn_type": {"values": ["gru"], "when": {"use_rnn": True}}, "use_rnn": [True]}, "must come before"),
        ({}, "is empty"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(content, complaint):
    with pytest.raises(RunnerError, match=complaint):
        parse_space(content, TRAINER)


def test_a_python_function_can_be_the_space(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "def search_space(trial):\n    return {'gamma': 1 - trial.suggest_float('g', 0.001, 0.1)}\n"
    )
    assert load_space(str(path), ANYTHING).suggest(FixedTrial(g=0.25), {}) == {"gamma": 0.75}


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--search_space=appo"], "which environment"),
        (["--env=gym_CartPole-v1"], "which settings"),
        (["--env=gym_CartPole-v1", "--search_space=apo"], "use appo, appo_model, throughput"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--gamma=0.9"], "leave one of them out"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--rolout=8"], "did you mean rollout"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--seed=1"], "--repeat=3"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--eval_seed_start=2"], "--eval_seed_start=100"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--pruner=wilcoxon"], "use --repeat=5"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--pruner=asha"], "--pruner_interval=100000"),
        (["--envs", "gym_CartPole-v1", "gym_Acrobot-v1", "--search_space=appo"], "--target_scores=FILE"),
        (["--env=gym_CartPole-v1", "--search_space=appo", "--repeat=0"], "--repeat=0 must be at least 1"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(flags, complaint):
    with pytest.raises(RunnerError, match=complaint):
        parse_command_line(flags)


def test_what_is_typed_wins_over_the_file_and_the_trainers_flags_are_taken(tmp_path):
    path = tmp_path / "tune.yaml"
    path.write_text(
        "env: gym_CartPole-v1\nnum_samples: 7\nrepeat: 2\nparams: {use_rnn: false, rollout: 16}\n"
        "runner: {max_parallel: 3}\nsearch_space:\n  gamma: [0.9, 0.99]\n"
    )
    options = parse_command_line([f"--config={path}", "--repeat=4", "--rollout=8", "--hidden_size", "32"])
    assert (options.num_samples, options.objective.seeds, options.runner.max_parallel) == (7, (0, 1, 2, 3), 3)
    assert options.params == {"use_rnn": False, "rollout": 8, "hidden_size": 32}
    assert options.space.names == ["gamma"]


def test_several_environments_are_averaged_on_the_scale_of_their_targets(tmp_path):
    path = tmp_path / "targets.json"
    path.write_text('{"a": [0, 100], "b": {"random": -10, "expert": 10}}')
    objective = Objective(("a", "b"), (0, 1), targets=read_targets(path), aggregate="min")
    # The worse seed of a is 20 of 100, that of b halfway between -10 and 10.
    assert objective.value({("a", 0): 20.0, ("a", 1): 80.0, ("b", 0): 5.0, ("b", 1): 0.0}) == pytest.approx(
        0.35
    )


@pytest.mark.parametrize(
    ("aggregate", "value"), [("mean", 3.25), ("median", 1.5), ("iqm", 1.5), ("min", 0.0)]
)
def test_seeds_are_aggregated_as_asked(aggregate, value):
    objective = Objective(("a",), (0, 1, 2, 3), aggregate=aggregate)
    scores = {("a", seed): score for seed, score in enumerate([0.0, 1.0, 2.0, 10.0])}
    assert objective.value(scores) == value
