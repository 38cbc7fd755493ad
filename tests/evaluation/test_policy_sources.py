import json
import shutil
import sys
from types import ModuleType, SimpleNamespace

import pytest

from sample_factory.algorithms.appo.enjoy_appo import main as enjoy
from sample_factory.config.config import experiment_dir
from sample_factory.evaluate import main as evaluate
from sample_factory.evaluation.command_line import with_source
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.source import find_checkpoint, locate
from sample_factory.evaluation.wandb_source import RunPath, download
from sample_factory.model.checkpoints import CheckpointStore


@pytest.fixture
def experiment(train):
    """Checkpoints 5 (a milestone), 8 and 62, and the best one at 8."""
    cfg = train()
    store = CheckpointStore(experiment_dir(cfg) / "checkpoint_p0")
    first = store.load_latest()
    state = {"model": first.state["model"]}
    store.save_milestone(first.path)
    store.save_best(state, policy_version=8, env_steps=500, metric="reward", value=1.0)
    store.save(state, policy_version=8, env_steps=500)
    store.save(state, policy_version=62, env_steps=4000)
    return cfg


@pytest.mark.parametrize(
    ("choice", "version"),
    [("latest", 62), ("best", 8), ("milestone", 5), ("milestone:0", 5), ("8", 8), ("env:4000", 62)],
)
def test_a_checkpoint_is_chosen_by_kind_or_exact_number(experiment, choice, version):
    experiment.iter_num = choice
    assert find_checkpoint(experiment).policy_version == version


@pytest.mark.parametrize("choice", ["6", "620", "env:40", "milestone:1"])
def test_a_number_that_matches_nothing_lists_what_there_is(experiment, choice):
    experiment.iter_num = choice
    with pytest.raises(
        EvaluationError, match=r"found: checkpoint_000000005_320\.pth, .*use --iter_num=latest"
    ):
        find_checkpoint(experiment)


def test_a_choice_that_means_nothing_is_one_sentence(experiment):
    experiment.iter_num = "newest"
    with pytest.raises(
        EvaluationError, match=r"^--iter_num=newest must be latest, best, .*--iter_num=latest\.$"
    ):
        find_checkpoint(experiment)


def test_a_milestone_file_finds_its_experiment(experiment):
    directory = experiment_dir(experiment)
    (milestone,) = (directory / "checkpoint_p0/milestones").iterdir()
    assert locate(milestone).directory == directory
    assert locate(milestone).file == milestone


def test_a_file_without_settings_is_refused(experiment, tmp_path):
    lonely = tmp_path / "elsewhere" / "a" / "b" / "c" / "model.pth"
    lonely.parent.mkdir(parents=True)
    shutil.copy(find_checkpoint(experiment).path, lonely)
    with pytest.raises(EvaluationError, match=r"needs the cfg\.json of its experiment beside it"):
        locate(lonely)


def test_published_policies_are_found_by_name(experiment, tmp_path, monkeypatch):
    shutil.copytree(experiment_dir(experiment), tmp_path / "trained_policies" / "payer")
    monkeypatch.chdir(tmp_path)
    assert locate("payer").directory == tmp_path / "trained_policies" / "payer"
    assert locate("trained_policies/payer").directory == tmp_path / "trained_policies" / "payer"


def test_nothing_at_all_is_one_sentence():
    with pytest.raises(EvaluationError, match=r"^There is no policy at /no/such/place: name "):
        locate("/no/such/place")


class FakeApi:
    """The parts of wandb's Api that are used; files are local ones."""

    def __init__(self, folder, config=None):
        self.folder, self.config = folder, config or {}
        self.downloads = []

    def run(self, path):
        if path != "team/project/abc":
            raise ValueError(f"could not find run {path}")
        files = [path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file()]
        return SimpleNamespace(
            files=lambda: [self.file(str(name)) for name in files], config=self.config, path=path.split("/")
        )

    def file(self, name):
        def fetch(root, replace):
            self.downloads.append(name)
            target = f"{root}/{name}"
            shutil.copytree(self.folder, root, dirs_exist_ok=True)
            return target

        return SimpleNamespace(name=name, download=fetch)


@pytest.fixture
def fake_api(experiment):
    return FakeApi(experiment_dir(experiment))


def get(path, api, tmp_path, choice="latest", replace=False):
    return download(RunPath.parse(path), tmp_path / "here", choice=choice, replace=replace, api=api)


def test_a_run_is_downloaded_as_an_experiment(fake_api, tmp_path):
    file = get("wandb:team/project/abc", fake_api, tmp_path)
    assert file == tmp_path / "here/wandb/abc/checkpoint_p0/checkpoint_000000062_4000.pth"
    assert locate(file).directory == tmp_path / "here/wandb/abc"
    assert CheckpointStore(file.parent).load_latest().policy_version == 62


def test_numbers_in_a_run_are_exact(fake_api, tmp_path):
    assert get("team/project/abc", fake_api, tmp_path, "best").name.startswith("best_000000008")
    assert get("team/project/runs/abc", fake_api, tmp_path, "env:320").name.startswith("checkpoint_000000005")
    with pytest.raises(EvaluationError, match=r"stored no 6 checkpoint; it has .*checkpoint_000000062_4000"):
        get("team/project/abc", fake_api, tmp_path, "6")


def test_nothing_is_downloaded_twice_unless_asked_for(fake_api, tmp_path):
    get("team/project/abc", fake_api, tmp_path)
    get("team/project/abc", fake_api, tmp_path)
    assert len(fake_api.downloads) == 2  # cfg.json and the checkpoint
    get("team/project/abc", fake_api, tmp_path, replace=True)
    assert len(fake_api.downloads) == 4


def test_settings_may_come_from_the_run_itself(fake_api, experiment, tmp_path):
    (experiment_dir(experiment) / "cfg.json").unlink()
    fake_api.config = {"env": "paying", "hidden_size": 8}
    file = get("team/project/abc", fake_api, tmp_path)
    assert json.loads((file.parents[1] / "cfg.json").read_text())["env"] == "paying"


def test_a_run_without_checkpoints_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(EvaluationError, match=r"^Run team/project/abc stored no checkpoints; "):
        get("team/project/abc", FakeApi(tmp_path / "empty"), tmp_path)


def test_an_unreachable_service_is_one_sentence(fake_api, tmp_path):
    with pytest.raises(
        EvaluationError, match=r"can't be reached or has no such run \(could not find run t/p/x\)"
    ):
        get("t/p/x", fake_api, tmp_path)


@pytest.mark.parametrize("path", ["abc", "team/abc", "a/b/c/d", "a//b", "a/b/.."])
def test_a_run_path_has_three_parts(path):
    with pytest.raises(EvaluationError, match=r"must be entity/project/run\.$"):
        RunPath.parse(path)


def test_the_command_line_is_completed_from_a_run(fake_api, tmp_path, monkeypatch):
    monkeypatch.setattr("sample_factory.evaluation.wandb_source._make_api", lambda: fake_api)
    argv = with_source(["--model_path=wandb:team/project/abc", f"--train_dir={tmp_path / 'here'}"])
    assert argv[0] == "--env=paying"
    assert argv[-2:] == [f"--train_dir={tmp_path / 'here/wandb'}", "--experiment=abc"]


@pytest.fixture
def wandb_module(fake_api, monkeypatch):
    """A stand-in for the package, as far as policies are downloaded with it."""
    module = ModuleType("wandb")
    module.Api = lambda timeout: fake_api
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


@pytest.mark.parametrize("flag", ["--wandb_run_path=team/project/abc", "--model_path=wandb:team/project/abc"])
def test_a_policy_of_a_run_is_scored_and_played(wandb_module, flag, tmp_path, capsys):
    here = f"--train_dir={tmp_path / 'here'}"
    assert evaluate([flag, here, "--max_num_episodes=3", "--num_workers=1", "--eval_seed=0"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n_traj"], summary["return_mean"]) == (3, 12.0)
    assert enjoy([flag, here, "--no_render", "--max_num_episodes=1"]) == 0


@pytest.mark.parametrize("program", ["evaluate", "enjoy"])
def test_without_network_both_programs_say_what_to_do(wandb_module, program, tmp_path, capsys):
    def unreachable(timeout):
        raise OSError("Network is unreachable")

    wandb_module.Api = unreachable
    argv = ["--wandb_run_path=team/project/abc", f"--train_dir={tmp_path / 'here'}"]
    assert {"evaluate": evaluate, "enjoy": enjoy}[program](argv) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: Weights & Biases can't be reached or has no such run (Network is unreach")
    assert "use --model_path with a local copy" in error
    assert "Traceback" not in error


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert evaluate(["--wandb_run_path=team/project/abc", f"--train_dir={tmp_path}"]) == 1
    assert "pip install 'sample-factory-rebuilt[wandb]'" in capsys.readouterr().err
