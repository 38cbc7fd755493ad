import pytest

from sample_factory.evaluation.showcase import main
from sample_factory.monitoring import log
from sample_factory.monitoring.metrics import append_metrics


@pytest.fixture(autouse=True)
def quiet():
    yield
    log.close_logging()


@pytest.fixture
def show(tmp_path):
    return lambda *flags: main(
        ["--experiment=made_up", f"--train_dir={tmp_path}", "--showcase_episodes=4", *flags]
    )


def test_the_score_stands_beside_that_of_a_random_policy(train, show, capsys):
    train(action=2)
    assert show() == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("Mean reward over 4 episodes of paying: 12.00 (a random policy: ")
    assert 0.0 < float(first.split(": ")[-1].rstrip(")")) < 12.0


def test_video_and_curve_are_written_and_their_paths_printed(train, show, capsys, tmp_path):
    pytest.importorskip("imageio.v2")
    pytest.importorskip("matplotlib")
    train()
    metrics = {"time": 1.0, "env_steps": 10, "policy": 0, "0_aux/avg_reward": 3.0}
    append_metrics(tmp_path / "made_up" / "metrics.jsonl", metrics)
    show()
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"Video: {tmp_path}/made_up/replay.mp4",
        f"Learning curve: {tmp_path}/made_up/learning_curve.png",
    ]
    assert (tmp_path / "made_up" / "replay.mp4").stat().st_size > 0
    assert (tmp_path / "made_up" / "learning_curve.png").stat().st_size > 0


def test_what_cannot_be_drawn_is_said_and_is_no_failure(train, show, capsys):
    train()
    assert show() == 0
    assert "Learning curve: none. " in capsys.readouterr().out


def test_flags_of_the_trainer_are_accepted_and_the_last_experiment_counts(train, tmp_path, capsys):
    train()
    argv = ["--experiment=other", f"--train_dir={tmp_path}", "--showcase_episodes=1"]
    assert main([*argv, "--learning_rate=0.1", "--wandb_tags", "a", "b", "--experiment=made_up"]) == 0


def test_a_missing_experiment_is_one_sentence(show, capsys):
    with pytest.raises(SystemExit) as exit_info:
        show()
    assert exit_info.value.code == 2
    assert capsys.readouterr().err.startswith("error: No experiment to show: ")


def test_an_experiment_without_checkpoint_fails_with_a_sentence(train, show, capsys):
    train(policy_index=1)
    assert show() == 1
    assert "error: Policy 0 has no checkpoints" in capsys.readouterr().err
