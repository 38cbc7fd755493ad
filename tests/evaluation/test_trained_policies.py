"""What is in `trained_policies/` is what it says it is."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from sample_factory.envs.registry import MissingPackageError
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.published import README, outdated_tables, policy_directories
from sample_factory.evaluation.replay import Replay, check_published, replay_episodes
from sample_factory.model.checkpoints import CheckpointError, CheckpointStore

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "trained_policies"
LARGEST_MB = 3.5


def test_the_tables_say_what_the_results_say():
    assert outdated_tables(FOLDER) == []
    assert all("<!-- scores -->" in (place / README).read_text() for place in (ROOT, FOLDER))


@pytest.mark.parametrize("directory", policy_directories(FOLDER), ids=lambda path: path.name)
def test_a_trained_policy_reaches_its_published_score(directory):
    try:
        check_published(directory)
    except MissingPackageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("directory", policy_directories(FOLDER), ids=lambda path: path.name)
def test_a_trained_policy_is_small_and_carries_weights_alone(directory):
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LARGEST_MB * 1e6
    state = CheckpointStore(directory / "checkpoint_p0").load_latest().state
    assert set(state) == {"model", "train_step", "env_steps"}


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(FOLDER / "cartpole", tmp_path / "cartpole"))


def change_result(directory, **changes):
    path = directory / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_weights(directory, change):
    store = CheckpointStore(directory / "checkpoint_p0")
    latest = store.load_latest()
    model = {name: change(tensor) for name, tensor in latest.state["model"].items()}
    store.save({"model": model}, policy_version=latest.policy_version, env_steps=latest.env_steps)


def test_an_unharmed_copy_is_accepted(copy):
    assert check_published(copy).score == pytest.approx(500.0, abs=10.0)


@pytest.mark.parametrize("change", [torch.zeros_like, torch.neg], ids=["forgotten", "reversed"])
def test_other_weights_are_noticed(copy, change):
    change_weights(copy, change)
    with pytest.raises(EvaluationError, match=r"cartpole is not the policy .* it scored .* not far above"):
        check_published(copy)


def test_a_file_that_was_cut_off_is_noticed(copy):
    (file,) = (copy / "checkpoint_p0").iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError):
        check_published(copy)


@pytest.mark.parametrize(
    ("label", "value", "complaint"),
    [
        ("score", 480.0, "the mean of its episodes is 500.0, not 480.0"),
        ("env", "gym_Acrobot-v1", "the environment in its settings is gym_CartPole-v1, not gym_Acrobot-v1"),
        ("env_steps", 1, "the number of frames of its weights is 500970, not 1"),
        ("episodes", 1000, "the number of its episodes is 100, not 1000"),
        ("name", "pong", "its directory is cartpole, not pong"),
    ],
)
def test_a_wrong_label_is_noticed(copy, label, value, complaint):
    change_result(copy, **{label: value})
    with pytest.raises(EvaluationError, match=complaint):
        check_published(copy)


def test_a_directory_without_a_result_is_noticed(copy):
    (copy / "result.json").unlink()
    with pytest.raises(EvaluationError, match=r"has no result\.json; sf publish writes one\.$"):
        check_published(copy)


def recorded(score=10.0, spread=2.0, chance=0.0):
    return {"score": score, "score_std": spread, "random_score": chance}


@pytest.mark.parametrize(
    ("scores", "problems"),
    [
        ([10.0] * 4, 0),
        ([5.9] * 4, 0),  # 4 standard errors are 4, and a fiftieth of the way from the random policy is 0.2
        ([5.7] * 4, 1),
        ([14.3] * 4, 1),
        ([4.9] * 4, 2),
        ([float("nan")] * 4, 2),
    ],
)
def test_a_mean_must_agree_and_be_far_above_chance(scores, problems):
    assert len(Replay(recorded(), scores).problems()) == problems


@pytest.mark.parametrize(
    ("spread", "seconds", "episodes"),
    [
        (0.0, 0.01, 10),  # enough for anybody
        (5.0, 0.01, 16),  # then 4 standard errors are half of the way to the random policy: (8 * 5 / 10) ** 2
        (50.0, 0.01, 30),  # at most
        (5.0, 1.0, 8),  # what there is time for
        (5.0, 60.0, 4),  # at least
    ],
)
def test_as_many_episodes_are_replayed_as_tell_good_from_half_as_good(spread, seconds, episodes):
    assert replay_episodes(10.0, spread, 0.0, seconds) == episodes
