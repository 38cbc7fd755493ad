"""`--collect`, and the names of Sample Factory 2."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest

from tests.runner.launching import Project

WRITER = (
    "import json, os, sys; flags = dict(word[2:].split('=', 1) for word in sys.argv[1:] if '=' in word); "
    "where = os.path.join(flags['train_dir'], flags['experiments_root'], flags['experiment']); "
    "os.makedirs(where); score = float(flags['seed']) * 1.5; "
    "json.dump({'result': {'score': score, 'score_source': 'train'}, 'progress': {'env_steps': 10}}, "
    "open(os.path.join(where, 'run.json'), 'w'))"
)


@pytest.mark.processes
def test_results_of_all_jobs_are_collected_into_one_table(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("writer.py", WRITER)
    run = project.describe('"x", "python writer.py", [{"seed": 1}, {"seed": 2}]', '"bad", "false"')
    assert project.launch(run) == 1
    capsys.readouterr()
    assert project.launch("--collect", "--run_name=run") == 0
    printed = capsys.readouterr().out
    assert (project.run_dir() / "results.csv").read_text() == printed
    rows = {row["job"]: row for row in csv.DictReader(printed.splitlines())}
    assert [rows[name]["score"] for name in ("00_x_see_1", "01_x_see_2", "00_bad")] == ["1.5", "3.0", ""]
    assert rows["00_bad"]["state"] == "FAILED"
    assert rows["00_x_see_1"]["env_steps"] == "10"


def test_a_run_without_scores_is_exit_code_3(project: Project) -> None:
    assert project.launch(project.describe('"x", "true"')) == 0
    assert project.launch("--collect", "--run_name=run") == 3


def test_scripts_and_commands_of_sample_factory_2_work(project: Project) -> None:
    project.write(
        "two.py",
        "from sample_factory.launcher.run_description import Experiment, ParamGrid, RunDescription\n"
        "grid = ParamGrid([('seed', [1, 2])])\n"
        "RUN_DESCRIPTION = RunDescription('two', [Experiment('x', 'echo', grid.generate_params(False))])\n",
    )
    command = [sys.executable, "-m", "sample_factory.launcher.run", "--run=two", "--backend=print"]
    done = subprocess.run(command, cwd=project.directory, capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["--seed=1", "--seed=2"]
