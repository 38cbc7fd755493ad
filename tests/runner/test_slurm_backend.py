"""A real Slurm of one node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.runner.launching import Project, wait_for
from tests.runner.slurm_cluster import SlurmCluster

Register = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
SLURM = ("--runner=slurm", "--slurm_gpus_per_job=0", "--slurm_cpus_per_gpu=1", "--slurm_poll=0.2")
FAIL = '"fail", "python -c \'raise ValueError(42)\'"'
SAVES = (
    '"saves", "bash -c \'[ -e go ] && exit 0; trap \\"echo saved >> seen; exit 75\\" TERM USR1; '
    "sleep 600 & echo on >> seen; wait'\""
)

pytestmark = pytest.mark.processes


def seen(project: Project) -> list[str]:
    path = project.directory / "seen"
    return path.read_text().splitlines() if path.exists() else []


def job_number(project: Project, name: str) -> str:
    number: str = project.jobs()[name]["attempts"][-1]["id"]
    return number


def test_waiting_for_jobs_gives_states_errors_and_exit_code(project: Project, slurm: SlurmCluster) -> None:
    run = project.describe(FAIL, '"ok", "true", [{"seed": 1}, {"seed": 2}]')
    assert project.launch(run, *SLURM, "--wait") == 1
    assert project.states() == {"00_fail": "FAILED", "00_ok_see_1": "COMPLETED", "01_ok_see_2": "COMPLETED"}
    assert project.jobs()["00_fail"]["error"] == "ValueError: 42 (exit code 1)"


def test_without_waiting_the_launcher_returns_and_status_finds_out(
    project: Project, slurm: SlurmCluster
) -> None:
    assert project.launch(project.describe(FAIL, '"ok", "true"'), *SLURM) == 0
    assert set(project.states().values()) == {"SUBMITTED"}
    wait_for(lambda: project.launch("--status", "--run_name=run", "--slurm_poll=0") == 1)
    wait_for(
        lambda: project.launch("--status", "--run_name=run") and project.states()["00_ok"] == "COMPLETED"
    )
    assert project.states() == {"00_fail": "FAILED", "00_ok": "COMPLETED"}


def test_an_array_runs_each_job_with_its_own_variables(project: Project, slurm: SlurmCluster) -> None:
    command = "bash -c 'echo $COLOUR $1 >> seen' x"
    run = project.describe(
        f'"a", "{command}", [{{"n": 1}}, {{"n": 2}}], {{"COLOUR": "red"}}',
        f'"b", "{command}", [{{"n": 3}}], {{"COLOUR": "blue"}}',
    )
    assert project.launch(run, *SLURM, "--wait", "--slurm_array", "--slurm_array_parallelism=2") == 0
    assert sorted(seen(project)) == ["blue --n=3", "red --n=1", "red --n=2"]
    assert {job["attempts"][0]["id"].split("_")[1] for job in project.jobs().values()} == {"0", "1", "2"}


def test_secrets_arrive_through_the_environment(project: Project, slurm: SlurmCluster) -> None:
    key = "0123456789abcdef-key"
    run = project.describe('"x", "bash -c \'echo ${#WANDB_API_KEY} > seen\'"')
    assert project.launch(run, *SLURM, "--wait", f"--wandb_api_key={key}") == 0
    assert seen(project) == [str(len(key))]
    assert key not in project.everything_written()


def test_a_refused_submission_is_a_failed_job_and_the_next_is_tried(
    project: Project, slurm: SlurmCluster
) -> None:
    run = project.describe('"a", "true"', '"b", "true"')
    assert project.launch(run, *SLURM, "--wait", "--slurm_partition=nowhere") == 1
    errors = [job["error"] for job in project.jobs().values()]
    assert len(errors) == 2
    assert all("sbatch refused it" in error and "partition" in error for error in errors)


def test_a_template_comes_before_the_command(project: Project, slurm: SlurmCluster) -> None:
    project.write("template.sh", "#!/bin/bash\nexport COLOUR=green\n")
    run = project.describe('"x", "bash -c \'echo $COLOUR > seen\'"')
    assert project.launch(run, *SLURM, "--wait", "--slurm_sbatch_template=template.sh") == 0
    assert seen(project) == ["green"]


def test_a_template_that_fails_is_the_jobs_failure(project: Project, slurm: SlurmCluster) -> None:
    project.write("template.sh", "#!/bin/bash\necho error: no such module\nexit 3\n")
    run = project.describe('"x", "true"')
    assert project.launch(run, *SLURM, "--wait", "--slurm_sbatch_template=template.sh") == 1
    assert project.jobs()["00_x"]["error"] == "error: no such module (Slurm says FAILED)"


def test_cancel_ends_jobs_and_they_may_save(project: Project, slurm: SlurmCluster) -> None:
    project.launch(project.describe(SAVES), *SLURM)
    wait_for(lambda: seen(project))
    assert project.launch("--cancel", "--run_name=run", "--slurm_poll=0") == 0
    assert seen(project) == ["on", "saved"]
    assert project.states() == {"00_saves": "INTERRUPTED"}
    # A cancelled job goes on when its launcher is started again.
    (project.directory / "go").touch()
    assert project.launch("--run=run.py", *SLURM, "--wait") == 0


def test_interrupting_a_waiting_launcher_leaves_jobs_to_slurm_and_the_next_adopts_them(
    project: Project, slurm: SlurmCluster, end_process: Register
) -> None:
    project.describe('"x", "bash -c \'echo on >> seen; until [ -e go ]; do sleep 0.1; done\'"')
    launcher = end_process(project.start("--run=run.py", *SLURM, "--wait"))
    wait_for(lambda: seen(project))
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=30)
    assert launcher.returncode == 130
    assert slurm.run("squeue", "-h", "-j", job_number(project, "00_x"), "-o", "%T").strip() == "RUNNING"
    (project.directory / "go").touch()
    assert project.launch("--run=run.py", *SLURM, "--wait") == 0
    assert seen(project) == ["on"]


def test_a_cancellation_from_outside_is_an_interruption(
    project: Project, slurm: SlurmCluster, end_process: Register
) -> None:
    project.describe('"x", "bash -c \'echo on >> seen; sleep 600\'"')
    launcher = end_process(project.start("--run=run.py", *SLURM, "--wait"))
    wait_for(lambda: seen(project))
    slurm.run("bash", str(project.run_dir() / "slurm" / "scancel.sh"))
    launcher.communicate(timeout=60)
    assert launcher.returncode == 75
    assert project.states() == {"00_x": "INTERRUPTED"}


def test_exit_code_75_is_requeued_by_the_job_itself(project: Project, slurm: SlurmCluster) -> None:
    run = project.describe('"x", "bash -c \'echo x >> seen; [ $(wc -l < seen) = 2 ] || exit 75\'"')
    assert project.launch(run, *SLURM) == 0
    number = job_number(project, "00_x")
    wait_for(lambda: "Restarts=1" in slurm.run("scontrol", "show", "job", number))
    wait_for(lambda: "JobState=PENDING" in slurm.run("scontrol", "show", "job", number))
    assert project.launch("--status", "--run_name=run", "--slurm_poll=0") == 0
    assert project.states() == {"00_x": "SUBMITTED"}
    # Slurm holds a requeued job back for two minutes, to be safe; two seconds are enough here.
    slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now+2")
    assert project.launch("--run=run.py", *SLURM, "--wait") == 0
    assert seen(project) == ["x", "x"]
    assert len(project.jobs()["00_x"]["attempts"]) == 1


def test_a_job_that_slurm_preempts_saves_and_is_requeued_by_slurm(
    project: Project, slurm: SlurmCluster
) -> None:
    project.launch(project.describe(SAVES), *SLURM, f"--slurm_cpus_per_gpu={slurm.cpus}")
    number = job_number(project, "00_saves")
    wait_for(lambda: seen(project))
    slurm.run("sbatch", "-p", "urgent", "-c", str(slurm.cpus), "--output=/dev/null", "--wrap=true")
    wait_for(lambda: "Restarts=1" in slurm.run("scontrol", "show", "job", number))
    wait_for(lambda: "JobState=PENDING" in slurm.run("scontrol", "show", "job", number))
    assert seen(project)[:2] == ["on", "saved"]
    assert project.launch("--status", "--run_name=run", "--slurm_poll=0") == 0
    assert project.states() == {"00_saves": "SUBMITTED"}
    (project.directory / "go").touch()
    slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now+2")
    assert project.launch("--run=run.py", *SLURM, "--wait") == 0


@pytest.mark.slow
def test_before_its_time_limit_a_job_saves_and_is_requeued(project: Project, slurm: SlurmCluster) -> None:
    project.launch(project.describe(SAVES), *SLURM, "--time=1", "--time_margin=55")
    number = job_number(project, "00_saves")
    wait_for(lambda: "Restarts=1" in slurm.run("scontrol", "show", "job", number), timeout=120)
    assert seen(project)[:2] == ["on", "saved"]
    assert project.launch("--cancel", "--run_name=run", "--slurm_poll=0") == 0


@pytest.mark.parametrize("array", ["--slurm_array", "--no-slurm_array"])
def test_a_launcher_that_dies_while_it_submits_submits_nothing_twice(
    project: Project, slurm: SlurmCluster, end_process: Register, array: str
) -> None:
    real = shutil.which("sbatch")
    # The launcher is gone before its submission reaches Slurm, and nobody reads the id.
    wrapper = project.write("bin/sbatch", f'#!/bin/bash\nkill -9 $PPID\nsleep 0.5\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    run = project.describe('"x", "bash -c \'echo ran >> seen\'"')
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    first = end_process(project.start(run, *SLURM, array, PATH=path))
    assert first.wait(60) == -signal.SIGKILL
    assert [job["attempts"][-1]["id"] for job in project.jobs().values()] == [""]
    assert project.launch(run, *SLURM, array, "--wait") == 0
    job = project.jobs()["00_x"]
    assert (job["state"], len(job["attempts"])) == ("COMPLETED", 1)
    assert seen(project) == ["ran"]
