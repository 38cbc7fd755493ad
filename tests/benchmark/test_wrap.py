"""`wrap`: scripts of the cherry document's kind are run, recorded, tested and filmed as they are."""

from __future__ import annotations

import csv
import json
import signal
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from sample_factory.benchmark import report
from sample_factory.benchmark.commands import main as benchmark_main
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.run_record import ALGO_LABEL_VARIABLE
from sample_factory.benchmark.wrap.environments import RecordedEnv
from sample_factory.benchmark.wrap.recorder import Recorder
from sample_factory.benchmark.wrap.script import Script
from sample_factory.benchmark.wrap.session import WrapOptions, wrap
from sample_factory.benchmark.wrap.trial import action_for

SCRIPTS = Path(__file__).parent / "scripts"
Wrapped = tuple[int, Path, dict[str, Any]]


def run(script: Path, out: Path, env: str = "CartPole-v1", **options: Any) -> Wrapped:
    """Exit code, directory and run.json of a wrapped script; by default two test episodes and no films."""
    wanted = WrapOptions(script, env, out=out, **{"test_episodes": 2, "videos": 0, **options})
    exit_code = wrap(wanted)
    return exit_code, wanted.directory, json.loads((wanted.directory / "run.json").read_text())


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a script with these lines."""

    def write_script(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write_script


@pytest.fixture(scope="module")
def cherry(tmp_path_factory: pytest.TempPathFactory) -> Wrapped:
    return run(SCRIPTS / "cherry_script.py", tmp_path_factory.mktemp("cherry"), seed=42, test_episodes=25)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Wrapped:
    return run(SCRIPTS / "crashing.py", tmp_path_factory.mktemp("crash"))


def metrics(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def episodes(directory: Path) -> list[dict[str, str]]:
    with (directory / "episodes.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_cherry_script_completes_with_25_test_episodes(cherry: Wrapped) -> None:
    exit_code, _, record = cherry
    assert (exit_code, record["status"], record["command"]) == (ExitCode.OK, "COMPLETED", "cherry_script")
    assert record["result"]["imit_stats"]["n_traj"] == 25
    assert record["result"]["score_source"] == "eval"


def test_values_of_the_logger_are_recorded_once_each_as_they_come(cherry: Wrapped) -> None:
    logged = [(line["env_steps"], line["loss"]) for line in metrics(cherry[1]) if "loss" in line]
    assert logged == [(30, 1.0), (60, 0.5), (90, 1 / 3), (120, 0.25), (150, 0.2)]


def test_only_training_is_in_the_table_of_rewards(cherry: Wrapped) -> None:
    with np.load(cherry[1] / "rewards.npz") as arrays:
        assert arrays["rewards"].tolist() == [1.0] * 150


def test_returned_numbers_are_kept_and_the_rest_is_not(cherry: Wrapped) -> None:
    assert cherry[2]["result"]["returned"] == {"updates": 5.0}


def test_the_weights_of_the_policy_are_saved(cherry: Wrapped) -> None:
    weights = torch.load(cherry[1] / "weights" / "policy.pth", weights_only=True)
    assert weights["layer.weight"].shape == (2, 4)
    assert "weights/policy.pth" in cherry[2]["artifacts"]


def test_the_script_and_the_packages_are_kept_with_the_run(cherry: Wrapped) -> None:
    assert (cherry[1] / "cherry_script.py").read_text() == (SCRIPTS / "cherry_script.py").read_text()
    assert f"numpy=={np.__version__}" in (cherry[1] / "packages.txt").read_text().splitlines()


def test_the_record_is_read_by_the_other_commands(
    cherry: Wrapped, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark_main(["summary", str(cherry[1])]) == ExitCode.OK
    score = cherry[2]["result"]["score"]
    assert capsys.readouterr().out.splitlines()[1] == f"cherry_script,CartPole-v1,{score},"


def test_seed_is_overwritten_and_the_import_is_seeded(tmp_path: Path) -> None:
    script = Script(SCRIPTS / "cherry_script.py")
    seen = []
    for seed in (5, 5, 6):
        sys.path.insert(0, str(SCRIPTS))
        try:
            script = Script(SCRIPTS / "cherry_script.py")
            script.load(seed)
        finally:
            sys.path.remove(str(SCRIPTS))
        seen.append((script.namespace()["SEED"], script.namespace()["AT_IMPORT"]))
    assert seen[0] == seen[1]
    assert (seen[0][0], seen[2][0]) == (5, 6)
    assert all(a != b for a, b in zip(seen[0][1], seen[2][1], strict=True))


def test_the_same_seed_trains_the_same_way(cherry: Wrapped, tmp_path: Path) -> None:
    again = run(SCRIPTS / "cherry_script.py", tmp_path, seed=42)
    assert episodes(again[1]) == episodes(cherry[1])


def test_an_early_return_is_an_ordinary_end(tmp_path: Path) -> None:
    exit_code, directory, record = run(SCRIPTS / "early_return.py", tmp_path)
    assert (exit_code, record["status"], len(episodes(directory))) == (0, "COMPLETED", 3)
    assert (directory / "weights" / "actor.pth").exists()


def test_without_somebody_to_act_the_training_episodes_are_the_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, directory, record = run(SCRIPTS / "early_return.py", tmp_path)
    assert record["result"]["score_source"] == "train"
    rewards = [float(row["reward"]) for row in episodes(directory)]
    assert record["result"]["score"] == pytest.approx(np.mean(rewards))
    assert "no test episodes: the script has none of get_action, agent, policy" in capsys.readouterr().err


def test_an_exception_is_a_failed_run_with_the_scripts_own_line(crashed: Wrapped) -> None:
    exit_code, _, record = crashed
    assert (exit_code, record["status"], record["exit_code"]) == (ExitCode.RUN_FAILED, "FAILED", 1)
    assert record["fail_trace"][-1] == "ZeroDivisionError: division by zero"
    line = (SCRIPTS / "crashing.py").read_text().split("1 / 0")[0].count("\n") + 1
    assert f'crashing.py", line {line}, in main' in record["fail_trace"][1]


def test_what_was_learned_before_an_exception_is_saved(crashed: Wrapped) -> None:
    assert (crashed[1] / "weights" / "model.pth").exists()


def test_what_the_script_prints_is_kept(crashed: Wrapped) -> None:
    output = (crashed[1] / "cout.txt").read_text()
    assert "about to divide\n" in output
    assert "ZeroDivisionError" in output


def test_flags_that_are_not_ours_belong_to_the_script(tmp_path: Path) -> None:
    script = SCRIPTS / "q_learning.py"
    arguments = ["wrap", str(script), "--env", "FrozenLake-v1", "--episodes", "4", f"--bench_out={tmp_path}"]
    assert benchmark_main([*arguments, "--bench_test_episodes=1", "--bench_videos=0"]) == 0
    directory = tmp_path / "q_learning" / "FrozenLake-v1" / "seed_42"
    assert len(episodes(directory)) == 4


def test_script_environment_and_seed_can_be_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_SCRIPT", str(SCRIPTS / "q_learning.py"))
    monkeypatch.setenv("BENCH_ENV", "FrozenLake-v1")
    monkeypatch.setenv("BENCH_SEED", "11")
    arguments = ["wrap", f"--bench_out={tmp_path}", "--bench_test_episodes=1", "--bench_videos=0"]
    assert benchmark_main([*arguments, "--episodes=3"]) == 0
    assert (tmp_path / "q_learning" / "FrozenLake-v1" / "seed_11" / "run.json").exists()


def test_after_two_dashes_every_flag_is_the_scripts(tmp_path: Path, write: Callable[[str], Path]) -> None:
    script = write("import sys\ndef main(env='x'):\n    print(sys.argv[1:])\n")
    arguments = [
        "wrap",
        str(script),
        "--env=CartPole-v1",
        f"--bench_out={tmp_path / 'o'}",
        "--a",
        "--",
        "--env=b",
    ]
    assert benchmark_main(arguments) == 0
    output = (tmp_path / "o" / "script" / "CartPole-v1" / "seed_42" / "cout.txt").read_text()
    assert "['--a', '--env=b']" in output


def test_reported_values_are_recorded_with_the_steps_so_far(tmp_path: Path) -> None:
    _, directory, record = run(
        SCRIPTS / "q_learning.py", tmp_path, env="FrozenLake-v1", arguments=("--episodes=3",)
    )
    lines = [line for line in metrics(directory) if "greedy_value" in line]
    assert [line["env_steps"] for line in lines] == [int(row["env_steps"]) for row in episodes(directory)]
    assert "greedy_value" in record["result"]["reported"]


def test_reporting_outside_of_wrap_does_nothing() -> None:
    report(reward=1.0, step=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "must define main"),
        ("def main(): pass", "has no parameter env"),
        ("def main(env, size): pass", "give size a default"),
        ("def main(env='x', *, size): pass", "give size a default"),
        ("def main(env='x'", "is no Python script"),
        ("async def main(env='x'): pass", "must define main"),
    ],
)
def test_a_script_that_cannot_be_called_is_a_usage_error(
    write: Callable[[str], Path], text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BenchmarkError, match=message) as error:
        run(write(text), tmp_path / "out")
    assert error.value.exit_code == ExitCode.USAGE
    assert not (tmp_path / "out").exists()


def test_decorated_and_keyword_only_mains_work(tmp_path: Path, write: Callable[[str], Path]) -> None:
    script = write(
        "def twice(function):\n\treturn lambda **kwargs: {'sum': 2 * function(**kwargs)}\n\n"
        "@twice\ndef main(*, env):\n\treturn len(env)\n"
    )
    assert run(script, tmp_path / "o", env="CartPole-v1")[2]["result"]["returned"] == {"sum": 22.0}


@pytest.mark.parametrize(
    ("code", "status"), [("0", "COMPLETED"), ("None", "COMPLETED"), ("3", "FAILED"), ("'no'", "FAILED")]
)
def test_leaving_by_sys_exit_is_judged_by_its_code(
    tmp_path: Path, write: Callable[[str], Path], code: str, status: str
) -> None:
    script = write(f"import sys\ndef main(env='x'):\n    sys.exit({code})\n")
    assert run(script, tmp_path / "o")[2]["status"] == status


def test_an_exception_at_import_is_a_failed_run(tmp_path: Path, write: Callable[[str], Path]) -> None:
    record = run(write("raise ValueError('no data')\ndef main(env='x'): pass\n"), tmp_path / "o")[2]
    assert (record["status"], record["fail_trace"][-1]) == ("FAILED", "ValueError: no data")


def test_a_time_limit_ends_the_script_even_if_it_catches_everything(
    tmp_path: Path, write: Callable[[str], Path]
) -> None:
    script = write(
        """
def main(env='x'):
    while True:
        try:
            pass
        except Exception:
            pass
"""
    )
    exit_code, _, record = run(script, tmp_path / "o", timeout_sec=0.2)
    assert (exit_code, record["status"]) == (ExitCode.TIME_LIMIT, "TIMEOUT")


def test_a_launcher_can_end_the_script(tmp_path: Path, write: Callable[[str], Path]) -> None:
    script = write(
        """
import os, signal
def main(env='x'):
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        pass
"""
    )
    before = signal.getsignal(signal.SIGTERM)
    assert run(script, tmp_path / "o")[2]["status"] == "INTERRUPTED"
    assert signal.getsignal(signal.SIGTERM) is before


def test_running_again_replaces_the_run(tmp_path: Path) -> None:
    first = run(SCRIPTS / "early_return.py", tmp_path)[1]
    (first / "old").touch()
    assert not (run(SCRIPTS / "early_return.py", tmp_path)[1] / "old").exists()


def test_files_that_are_no_run_are_left_alone(tmp_path: Path) -> None:
    precious = WrapOptions(SCRIPTS / "early_return.py", "CartPole-v1", out=tmp_path).directory / "thesis.tex"
    precious.parent.mkdir(parents=True)
    precious.touch()
    with pytest.raises(BenchmarkError, match="not empty"):
        run(SCRIPTS / "early_return.py", tmp_path)
    assert precious.exists()


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    directory = WrapOptions(Path("s.py"), "../../ALE/Pong-v5", out=tmp_path).directory
    assert directory.resolve().is_relative_to(tmp_path)
    assert directory.parent.name == "-..-ALE-Pong-v5"


def test_a_suites_label_groups_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALGO_LABEL_VARIABLE, "A2C tuned")
    assert run(SCRIPTS / "early_return.py", tmp_path)[2]["command"] == "A2C tuned"


def test_everything_is_as_before_when_the_script_has_ended(crashed: Wrapped) -> None:
    assert gymnasium.make.__module__ == "gymnasium.envs.registration"
    assert not hasattr(gymnasium.make, "__wrapped__")
    assert type(gymnasium.make("CartPole-v1")) is not RecordedEnv


def test_films_show_the_policy_at_work(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    _, directory, record = run(SCRIPTS / "cherry_script.py", tmp_path, videos=2)
    paths = sorted((directory / "videos").iterdir())
    assert [path.name for path in paths] == ["rollout_0.mp4", "rollout_1.mp4"]
    frames = [frame for frame in imageio.get_reader(paths[0])]
    assert len(frames) > 5 and frames[0].shape == (400, 600, 3)
    assert "videos/rollout_0.mp4" in record["artifacts"]


def test_an_environment_that_cannot_be_drawn_is_no_failure(
    tmp_path: Path, write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    script = write(
        "import gymnasium\nfrom tests.doubles import CountingEnv\n"
        "def main(env='x'):\n    env = CountingEnv()\n    agent = lambda obs: 0\n"
    )
    exit_code, _, record = run(script, tmp_path / "o", videos=1)
    assert (exit_code, record["result"]["score"]) == (0, 10.0)
    assert "no videos: the environment was not made by gymnasium.make" in capsys.readouterr().err


class OldInterface(gymnasium.Env):
    """Steps of gym before gymnasium: four values."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)
    count = 0

    def reset(self, **kwargs: Any) -> Any:
        self.count = 0
        return 0

    def step(self, action: Any) -> Any:
        self.count += 1
        return 0, 2.0, self.count == 3, {}


def test_steps_with_four_values_are_understood(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    env = RecordedEnv(OldInterface(), recorder, remake=lambda mode: OldInterface())
    for _ in range(2):
        env.reset()
        while not env.step(0)[2]:
            pass
    assert [(episode.reward, episode.length, episode.env_steps) for episode in recorder.episodes] == [
        (6.0, 3, 3),
        (6.0, 3, 6),
    ]


def test_means_cover_the_last_ten_episodes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for number in range(20):
        recorder.episode(0, length=number, reward=float(number))
    recorder.close()
    means = [(line["10_ep_mean_reward"], line["10_ep_mean_length"]) for line in metrics(tmp_path)]
    assert means[:2] == [(4.5, 4.5), (14.5, 14.5)]


def test_a_million_episodes_do_not_make_a_million_lines(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for _ in range(50_000):
        recorder.episode(0, 1, 1.0)
    recorder.close()
    assert len(metrics(tmp_path)) < 500


@pytest.mark.parametrize(
    "choice",
    [1, np.int64(1), np.array([1]), torch.tensor([[1]]), (1, "log-probability"), {"action": torch.tensor(1)},
     torch.distributions.Categorical(logits=torch.tensor([-100.0, 100.0]))],
    ids=["int", "numpy", "array", "tensor", "tuple", "dict", "distribution"],
)  # fmt: skip
def test_whatever_a_policy_returns_becomes_an_action(choice: Any) -> None:
    env = gymnasium.make("CartPole-v1")
    assert action_for(lambda obs: choice, np.zeros(4), env) == 1


def test_a_network_is_fed_with_tensors() -> None:
    env = gymnasium.make("Pendulum-v1")
    action = action_for(torch.nn.Linear(3, 1), np.ones(3), env)
    assert action.shape == (1,) and action.dtype == np.float32


class FakeWandb:
    """Stands in for the module; records what it is told."""

    __spec__ = ModuleSpec("wandb", None)

    def __init__(self) -> None:
        self.metrics: dict[str, str | None] = {}
        self.lines: list[dict[str, Any]] = []
        self.exit_code: int | None = None
        self.settings: dict[str, Any] = {}

    def init(self, **settings: Any) -> FakeWandb:
        self.settings = settings
        return self

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.metrics[name] = step_metric

    def log(self, values: dict[str, Any]) -> None:
        self.lines.append(values)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_wandb_gets_an_axis_for_every_kind_of_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    run(SCRIPTS / "cherry_script.py", tmp_path, wandb_project="mine")
    assert wandb.metrics["test_*"] == "test_episode" and wandb.metrics["*"] == "env_step"
    assert [line["test_episode"] for line in wandb.lines if "test_time_rewards" in line] == [0, 1]
    assert [line["env_step"] for line in wandb.lines if "loss" in line] == [30, 60, 90, 120, 150]
    assert (wandb.settings["name"], wandb.exit_code) == ("cherry_script/CartPole-v1", 0)
