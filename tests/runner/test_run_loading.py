"""Finding descriptions, and what launching costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.runner.launching import LAUNCHER, ROOT, Project


def test_a_missing_module_is_exit_code_one_and_named(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.launch("--run=myproject.nothing") == 1
    assert "error: cannot import myproject.nothing: No module named" in capsys.readouterr().err


def test_a_missing_import_inside_the_module_is_not_hidden(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("myproject_a/broken.py", "import no_such_package\n")
    assert project.launch("--run=myproject_a.broken") == 1
    assert "cannot import myproject_a.broken: No module named 'no_such_package'" in capsys.readouterr().err


def test_an_error_inside_the_module_is_shown_with_its_place(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("myproject_b/broken.py", "x = 1\ny = 1 / 0\n")
    assert project.launch("--run=myproject_b.broken") == 1
    assert re.search(r"ZeroDivisionError: division by zero \(.*broken.py:2\)", capsys.readouterr().err)


def test_a_module_without_description_is_told_what_to_define(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("empty.py", "")
    assert project.launch("--run=empty.py") == 1
    assert "RUN_DESCRIPTION = RunDescription(...)" in capsys.readouterr().err


def test_our_own_runs_have_short_names(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.launch("--run=doom_basic_envs", "--runner=print") == 0
    assert len(capsys.readouterr().out.splitlines()) == 60


def test_the_launcher_starts_without_torch_numpy_or_gymnasium(project: Project) -> None:
    script = (
        "import sys\n"
        "from sample_factory.runner.run import main\n"
        "assert main(['--run=doom_basic_envs', '--dry_run']) == 0\n"
        "assert main(['--config=task.yaml', '--dry_run']) == 0\n"
        "heavy = {'torch', 'numpy', 'gymnasium', 'ray', 'wandb'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    project.write("task.yaml", "env_bundle: doom/basic\ngamma: 0.9\n")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project.directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


DOCUMENTED_SCRIPT = """\
from sample_factory.runner.run_description import RunDescription, Experiment, ParamGrid

_params = ParamGrid([
    ('seed', [0, 1111, 2222, 3333, 4444, 5555, 6666, 7777, 8888, 9999]),
    ('env', ['doom_my_way_home', 'doom_deadly_corridor', 'doom_defend_the_center', 'doom_defend_the_line', 'doom_health_gathering', 'doom_health_gathering_supreme']),
])

_experiments = [
    Experiment(
        'basic_envs_fs4',
        'python -m sample_factory.algorithms.appo.train_appo --train_for_env_steps=500000000 --algo=APPO --env_frameskip=4 --use_rnn=True --num_workers=36 --num_envs_per_worker=8 --num_policies=1 --ppo_epochs=1 --rollout=32 --recurrence=32 --batch_size=2048 --wide_aspect_ratio=False',
        _params.generate_params(randomize=False),
    ),
]


RUN_DESCRIPTION = RunDescription('doom_basic_envs_appo', experiments=_experiments)
"""  # noqa: E501
DOCUMENTED_COMMAND = (
    "--run=myproject.train_10_seeds --runner=processes --max_parallel=12 --pause_between=10 "
    "--experiments_per_gpu=3 --num_gpus=4"
)
# Stands in for sixty trainings: notes which GPU it got, and leaves the file of a complete experiment.
INSTEAD_OF_TRAINING = """\
import os, sys
if "sample_factory.algorithms.appo.train_appo" in sys.orig_argv:
    flags = dict(token[2:].split("=", 1) for token in sys.orig_argv if token.startswith("--"))
    path = os.path.join(flags["train_dir"], flags["experiments_root"], flags["experiment"])
    os.makedirs(path)
    open(os.path.join(path, "done"), "w").write(os.environ["CUDA_VISIBLE_DEVICES"])
    os._exit(0)
"""


@pytest.mark.slow
def test_the_documents_script_and_command_run_as_printed(project: Project) -> None:
    project.write("myproject/train_10_seeds.py", DOCUMENTED_SCRIPT)
    project.write("instead/sitecustomize.py", INSTEAD_OF_TRAINING)
    done = subprocess.run(
        # Typed twice, the last value counts: ten minutes of pauses are left out.
        [*LAUNCHER, *DOCUMENTED_COMMAND.split(), "--pause_between=0"],
        cwd=project.directory,
        env={**os.environ, "PYTHONPATH": f"{project.directory / 'instead'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "6 envs x 10 seeds x 1 trial = 60 experiments (0 done, 60 to run)" in done.stderr
    experiments = project.run_dir("doom_basic_envs_appo") / "basic_envs_fs4_"
    assert len(list(experiments.glob("*/done"))) == 60
    assert {path.read_text() for path in experiments.glob("*/done")} == {"0", "1", "2", "3"}
