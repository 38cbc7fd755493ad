import csv
import json
import os

import numpy as np
import pytest

from sample_factory.config.config import experiment_dir
from sample_factory.evaluate import main
from sample_factory.evaluation import workers
from sample_factory.evaluation.evaluate import Programme
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import CheckpointStore
from tests.evaluation.paying import PayingEnv


@pytest.fixture
def run(command_line, capsys):
    def evaluate(*flags):
        capsys.readouterr()
        status = main([*command_line, "--eval_name=test", "--num_workers=1", *flags])
        return status, capsys.readouterr()

    return evaluate


def test_results_are_printed_and_written(train, run, tmp_path):
    train(action=2)
    status, printed = run("--max_num_episodes=5", "--num_envs_per_worker=2", "--eval_seed=3")
    assert status == 0
    summary = json.loads(printed.out)
    assert (summary["n_traj"], summary["return_mean"], summary["return_std"]) == (5, 12.0, 0.0)
    assert (summary["monitor_return_mean"], summary["len_mean"]) == (60.0, 6.0)
    written = json.loads((tmp_path / "made_up/eval/test/eval.json").read_text())
    assert (written["policy_version"], written["env_steps"], written["seed"]) == (5, 320, 3)
    assert (written["checkpoint"], written["complete"]) == ("checkpoint_000000005_320.pth", True)
    assert len(written["episodes"]) == 5
    rows = list(csv.DictReader((tmp_path / "made_up/eval/test/episodes.csv").open()))
    assert [row["episode"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [row["env_index"] for row in rows] == ["0", "1", "0", "1", "0"]
    assert {(row["reward"], row["terminated"], row["truncated"]) for row in rows} == {
        ("12.0", "True", "False")
    }
    assert len({row["seed"] for row in rows}) == 5


def test_the_environment_is_read_from_the_experiment(train, tmp_path, capsys):
    train(action=1)
    flags = [f"--model_path={tmp_path / 'made_up'}", "--max_num_episodes=2", "--num_workers=1"]
    assert main(flags) == 0
    assert json.loads(capsys.readouterr().out)["return_mean"] == 6.0


def test_a_checkpoint_file_can_be_named(train, tmp_path, capsys):
    cfg = train(action=1)
    store = CheckpointStore(experiment_dir(cfg) / "checkpoint_p0")
    old = store.load_latest()
    state = {"model": dict(old.state["model"])}
    state["model"]["action_head.linear.bias"] = old.state["model"]["action_head.linear.bias"].roll(1)
    store.save(state, policy_version=9, env_steps=640)
    flags = ["--max_num_episodes=2", "--num_workers=1"]
    assert main([f"--model_path={old.path}", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["return_mean"] == 6.0
    assert main([f"--model_path={tmp_path / 'made_up'}", *flags, "--iter_num=all", "--eval_name=all"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["policy_version"], line["return_mean"]) for line in lines] == [(5, 6.0), (9, 12.0)]
    assert (tmp_path / "made_up/eval/all/000000009/episodes.csv").exists()


def test_as_many_episodes_are_played_as_sample_env_episodes_says(train, run, tmp_path):
    train()
    _, printed = run("--sample_env_episodes=7", "--csv_folder_name=tables")
    assert json.loads(printed.out)["n_traj"] == 7
    assert len((tmp_path / "made_up/tables/eval_p0.csv").read_text().splitlines()) == 8


def test_csv_can_be_printed(train, run):
    train()
    _, printed = run("--max_num_episodes=2", "--output_format=csv")
    header, *rows = printed.out.splitlines()
    assert header.startswith("episode,env_index,seed,length,reward,true_reward,terminated,truncated,agent")
    assert len(rows) == 2


def test_frames_can_end_an_evaluation_early(train, run, tmp_path):
    train()
    run("--max_num_episodes=50", "--num_envs_per_worker=1", "--max_num_frames=13")
    written = json.loads((tmp_path / "made_up/eval/test/eval.json").read_text())
    assert (written["n_traj"], written["complete"]) == (2, False)


def test_videos_of_the_first_episodes_are_written(train, run, tmp_path):
    train()
    assert run("--max_num_episodes=4", "--save_video", "--num_videos=2", "--video_format=npz")[0] == 0
    files = sorted((tmp_path / "made_up/eval/test/videos").iterdir())
    assert [path.name for path in files] == ["ep0.npz", "ep1.npz"]
    with np.load(files[1]) as video:
        assert video["frames"].max(axis=(1, 2, 3)).tolist() == [0, 10, 20, 30, 40, 50, 60]


def test_an_environment_without_pictures_is_refused_before_playing(train, run):
    train("--env=double_counting", action=1)
    status, printed = run("--env=double_counting", "--max_num_episodes=1", "--save_video")
    assert status == 1
    assert "error: --env=double_counting neither renders nor observes pictures" in printed.err


def test_trajectories_hold_every_transition(train, run, tmp_path):
    train(action=2)
    run("--max_num_episodes=3", "--save_traj", "--save_traj_pixels")
    files = sorted((tmp_path / "made_up/eval/test/trajs").iterdir())
    assert [path.name for path in files] == [f"paying_demo00{i}.npz" for i in range(3)]
    with np.load(files[2]) as episode:
        assert episode["obs0"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
        assert episode["obs1"][:, 0].tolist() == [1, 2, 3, 4, 5, 6]
        assert episode["acs"].tolist() == [2] * 6
        assert episode["env_rews"].tolist() == [2.0] * 6
        assert episode["dones1"].tolist() == [False] * 5 + [True]
        assert (int(episode["ep_lens"]), float(episode["ep_env_rets"])) == (6, 12.0)
        assert episode["obs_render"].shape == (6, 60, 80, 3)


@pytest.mark.parametrize(("kind", "package"), [("h5", "h5py"), ("minari", "minari")])
def test_a_missing_package_is_named_before_playing(train, run, monkeypatch, kind, package):
    train()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, printed = run("--max_num_episodes=1", "--save_traj", f"--traj_format={kind}")
    assert status == 1
    assert f"error: --traj_format={kind} needs the package {package}: pip install {package}" in printed.err


def test_h5_files_hold_the_same(train, run, tmp_path):
    h5py = pytest.importorskip("h5py")
    train(action=2)
    run("--max_num_episodes=1", "--save_traj", "--traj_format=h5")
    with h5py.File(tmp_path / "made_up/eval/test/trajs/paying_demo000.h5") as episode:
        assert episode["acs"][:].tolist() == [2] * 6
        assert episode["ep_env_rets"][()] == 12.0


def test_minari_reads_what_was_written(train, run, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    train(action=2)
    assert run("--max_num_episodes=2", "--save_traj", "--traj_format=minari")[0] == 0
    dataset = minari.load_dataset("paying/made_up_test-v0")
    assert dataset.total_episodes == 2
    assert dataset[1].observations[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert dataset[1].rewards.tolist() == [2.0] * 6


class DyingEnv(PayingEnv):
    """Takes its process with it in the first life."""

    def step(self, action):
        flag = os.environ["DYING_ENV_FLAG"]
        if self.tick == 4 and not os.path.exists(flag):
            open(flag, "w").close()
            os._exit(7)
        return super().step(action)


@pytest.mark.processes
def test_workers_share_the_episodes_and_a_dead_one_plays_again(train, tmp_path, monkeypatch):
    from sample_factory.envs.registry import register_env

    cfg = train(action=2)
    monkeypatch.setenv("DYING_ENV_FLAG", str(tmp_path / "died"))
    register_env("paying", lambda *args, **kwargs: DyingEnv())
    monkeypatch.setattr(workers, "STOP_SECONDS", 5.0)
    episodes = play(Job(cfg, Programme(num_episodes=5, num_envs=4)), num_workers=2)
    assert (tmp_path / "died").exists()
    assert [(e.episode, e.reward) for e in episodes] == [(i, 12.0) for i in range(5)]
