import logging
import math

import numpy as np
import pytest

from sample_factory.algorithms.appo.enjoy_appo import enjoy, main
from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.envs.registry import EnvFamily, register_family
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.stage import Stage
from sample_factory.evaluation.viewing import WindowViewer, display_exists, viewing_plan
from sample_factory.monitoring import log
from tests.evaluation.paying import PayingEnv


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


@pytest.fixture
def enjoy_flags(command_line):
    return lambda *flags: parse_args([*command_line, "--no_render", *flags], evaluation=True)


def plan_of(has_display=True, **settings):
    defaults = {"env": "paying", "env_frameskip": 4, "no_render": False, "save_video": False}
    plan = viewing_plan(Config(**(defaults | settings)), has_display=has_display)
    return plan.render_mode, plan.env_frameskip, plan.action_repeat


def test_a_watched_policy_acts_at_the_trained_rate_and_every_frame_is_shown():
    assert plan_of() == ("human", 1, 4)
    assert plan_of(save_video=True) == ("rgb_array", 1, 4)


def test_where_nobody_looks_the_environment_is_as_in_training():
    assert plan_of(no_render=True) == (None, 4, 1)
    assert plan_of(has_display=False) == (None, 4, 1)


def test_where_observations_stack_frames_the_frame_skip_stays():
    register_family(EnvFamily("stacked", make_env=lambda *args: None, defaults={"env_framestack": 4}))
    assert plan_of(env="stacked_env") == ("human", 4, 1)


def test_an_explicit_repeat_wins():
    assert plan_of(render_action_repeat=2, no_render=True) == (None, 1, 2)


def test_an_explicit_frame_skip_keeps_the_rate_of_decisions():
    assert plan_of(eval_env_frameskip=2) == ("human", 2, 2)
    assert plan_of(eval_env_frameskip=2, render_action_repeat=3) == ("human", 2, 3)


def test_a_frame_skip_that_does_not_divide_is_one_sentence():
    with pytest.raises(EvaluationError, match=r"^--eval_env_frameskip=3 must divide the 4 frames .*=1\.$"):
        plan_of(eval_env_frameskip=3)


def test_a_family_without_frame_skip_acts_every_frame():
    assert plan_of(env_frameskip=None) == ("human", 1, 1)


def test_a_display_is_found_in_the_environment(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    assert not display_exists()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert display_exists()


def test_the_mean_reward_is_returned(train, enjoy_flags):
    train(action=2)
    assert enjoy(enjoy_flags("--max_num_episodes=3")) == (0, 12.0)


def test_enjoying_stops_after_the_frames_asked_for(train, enjoy_flags, made_envs):
    train("--env_frameskip=2")
    status, reward = enjoy(enjoy_flags("--max_num_frames=4"))
    assert status == 0
    assert math.isnan(reward)  # the first episode would have needed 6 frames
    assert made_envs[-1].tick == 4


def test_repeats_stop_at_the_end_of_an_episode(train, enjoy_flags, made_envs):
    train("--env_frameskip=4", action=1)
    enjoy(enjoy_flags("--max_num_episodes=2", "--render_action_repeat=4"))
    assert [tick for tick, _ in made_envs[-1].actions] == [0, 1, 2, 3, 4, 5] * 2


def test_the_saved_settings_decide_unless_something_is_typed(train, enjoy_flags, made_envs):
    train("--env_frameskip=3")
    enjoy(enjoy_flags("--max_num_episodes=1"))
    assert made_envs[-1].frameskip == 3
    enjoy(enjoy_flags("--max_num_episodes=1", "--env_frameskip=2"))
    assert made_envs[-1].frameskip == 2


def test_every_episode_is_reported_with_a_running_mean(train, enjoy_flags, caplog, monkeypatch):
    train(action=2)
    monkeypatch.setattr(log.logger(), "propagate", True)
    with caplog.at_level(logging.INFO):
        enjoy(enjoy_flags("--max_num_episodes=2"))
    lines = [record.getMessage() for record in caplog.records]
    episode = "Episode finished for agent 0 at {} frames. Reward: 12.000, true_reward: 60.000"
    for frames in (6, 12):
        assert episode.format(frames) in lines
    assert "Avg episode reward: 12.000, avg true_reward: 60.000" in lines


def test_multi_agent_environments_can_be_watched(train, enjoy_flags):
    train("--env=double_two_agents", action=1)
    status, reward = enjoy(enjoy_flags("--env=double_two_agents", "--max_num_episodes=4"))
    assert (status, reward) == (0, 5.0)  # both always act alike


def test_recurrent_policies_can_be_watched(train, enjoy_flags):
    train("--use_rnn=True", "--recurrence=32", action=1)
    assert enjoy(enjoy_flags("--max_num_episodes=2")) == (0, 6.0)


def test_a_video_shows_every_frame_of_one_episode(train, enjoy_flags, tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    train("--env_frameskip=4")
    enjoy(enjoy_flags("--save_video", "--video_frames=-1"))
    frames = imageio.mimread(tmp_path / "made_up" / "replay.mp4")
    assert len(frames) == 7  # the first observation and six frames
    assert [round(float(frame.mean()), -1) for frame in frames] == [0, 10, 20, 30, 40, 50, 60]


def test_a_video_ends_at_the_frames_asked_for(train, enjoy_flags, tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    train()
    enjoy(enjoy_flags("--save_video", "--video_frames=4", "--video_name=short"))
    assert len(imageio.mimread(tmp_path / "made_up" / "short.mp4")) == 4


def test_a_video_without_any_limit_ends_all_the_same(train, enjoy_flags, tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    train()
    enjoy(enjoy_flags("--save_video"))
    assert len(imageio.mimread(tmp_path / "made_up" / "replay.mp4")) == 1 + 3 * 6


def test_without_a_display_a_video_is_made(train, enjoy_flags, tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    train(action=2)
    assert enjoy(enjoy_flags("--no_render=False", "--max_num_episodes=1")) == (0, 12.0)
    assert len(imageio.mimread(tmp_path / "made_up" / "replay.mp4")) == 7


def test_without_a_display_and_with_nothing_to_film_the_policy_plays_unseen(train, enjoy_flags, tmp_path):
    train("--env=double_counting", action=1)
    flags = ("--env=double_counting", "--no_render=False", "--max_num_episodes=2")
    assert enjoy(enjoy_flags(*flags)) == (0, 10.0)
    assert not list(tmp_path.rglob("*.mp4"))


def test_a_video_can_be_an_array(train, enjoy_flags, tmp_path):
    train()
    enjoy(enjoy_flags("--save_video", "--video_frames=-1", "--video_format=npz"))
    with np.load(tmp_path / "made_up" / "replay.npz") as file:
        assert file["frames"].shape == (7, 240, 320, 3)
        assert file["frames"][3].max() == 30


def test_what_is_shown_can_be_written_down(train, enjoy_flags, tmp_path):
    train(action=2)
    enjoy(enjoy_flags("--max_num_episodes=2", "--save_traj", f"--save_traj_dir={tmp_path / 'demos'}"))
    assert sorted(path.name for path in (tmp_path / "demos" / "paying" / "made_up").iterdir()) == [
        "paying_demo000.npz",
        "paying_demo001.npz",
    ]


def test_a_video_of_nothing_to_see_is_refused_before_playing(train, enjoy_flags):
    train("--env=double_counting", action=1)
    with pytest.raises(
        EvaluationError, match=r"^--env=double_counting neither renders nor observes pictures"
    ):
        enjoy(enjoy_flags("--env=double_counting", "--save_video"))


def test_ctrl_c_ends_the_show_with_the_results_so_far(train, enjoy_flags, monkeypatch):
    train(action=2)
    steps = []

    def interrupt_later(self, action):
        steps.append(action)
        if len(steps) == 8:
            raise KeyboardInterrupt
        return original(self, action)

    original = PayingEnv.step
    monkeypatch.setattr(PayingEnv, "step", interrupt_later)
    assert enjoy(enjoy_flags()) == (0, 12.0)


def test_a_missing_experiment_is_one_sentence_and_exit_code_2(command_line, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(command_line)
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: No experiment to evaluate:")
    assert error.count("\n") == 1


def test_a_missing_checkpoint_is_one_sentence_and_exit_code_1(train, command_line, capsys):
    train(policy_index=1)
    assert main([*command_line, "--no_render"]) == 1
    assert capsys.readouterr().err.startswith("error: Policy 0 has no checkpoints in ")


def test_main_returns_success(train, command_line):
    train()
    assert main([*command_line, "--max_num_episodes=1", "--no_render"]) == 0
    log.close_logging()


def test_a_window_is_drawn_at_the_speed_asked_for():
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    stage = Stage(PayingEnv())
    viewer = WindowViewer(stage, fps=10, clock=lambda: now[0], sleep=sleep)
    viewer.look()
    now[0] += 0.04  # the simulator takes a while
    viewer.look()
    now[0] += 0.5  # and once far too long: no hurry afterwards
    viewer.look()
    viewer.look()
    assert slept == [0.1, 0.06, 0.0, 0.1]
