"""A real Ray of one node."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.runner.launching import Project, wait_for

Register = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
FAIL = '"fail", "python -c \'raise ValueError(42)\'"'
PATIENT = (
    '"patient", "bash -c \'[ -e go ] && exit 0; trap \\"echo saved >> seen; exit 75\\" TERM; '
    "sleep 600 & echo on >> seen; wait'\""
)

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def seen(project: Project) -> list[str]:
    path = project.directory / "seen"
    return path.read_text().splitlines() if path.exists() else []


def finish(launcher: subprocess.Popen[str]) -> int:
    output = launcher.communicate(timeout=120)[0]
    print(output)
    return launcher.returncode


def test_tasks_give_states_errors_and_exit_code(
    project: Project, ray_address: str, end_process: Register
) -> None:
    key = "0123456789abcdef-key"
    project.describe(
        FAIL, '"ok", "bash -c \'echo ${#WANDB_API_KEY} $COLOUR > seen\'", env_vars={"COLOUR": "red"}'
    )
    flags = ("--run=run.py", "--runner=ray", f"--ray_address={ray_address}")
    assert finish(end_process(project.start(*flags, WANDB_API_KEY=key))) == 1
    assert project.states() == {"00_fail": "FAILED", "00_ok": "COMPLETED"}
    assert project.jobs()["00_fail"]["error"] == "ValueError: 42 (exit code 1)"
    assert seen(project) == [f"{len(key)} red"]
    assert key not in project.everything_written()


def test_a_job_that_asks_for_more_than_the_cluster_has_waits(
    project: Project, ray_address: str, end_process: Register
) -> None:
    project.describe('"x", "true"')
    flags = ("--run=run.py", "--runner=ray", f"--ray_address={ray_address}", "--ray_gpus_per_job=1")
    launcher = end_process(project.start(*flags))
    wait_for(
        lambda: (project.run_dir() / "manifest.json").exists() and project.states()["00_x"] == "SUBMITTED"
    )
    wait_for(lambda: project.jobs()["00_x"]["attempts"][0]["id"])
    launcher.send_signal(signal.SIGINT)
    assert finish(launcher) == 130
    assert project.states() == {"00_x": "INTERRUPTED"}


def test_interrupting_the_launcher_lets_jobs_save(
    project: Project, ray_address: str, end_process: Register
) -> None:
    project.describe(PATIENT)
    launcher = end_process(project.start("--run=run.py", "--runner=ray", f"--ray_address={ray_address}"))
    wait_for(lambda: seen(project))
    launcher.send_signal(signal.SIGINT)
    assert finish(launcher) == 130
    assert seen(project) == ["on", "saved"]
    assert project.states() == {"00_patient": "INTERRUPTED"}


def test_tasks_end_with_a_killed_launcher_and_run_again(
    project: Project, ray_address: str, end_process: Register
) -> None:
    project.describe(PATIENT)
    flags = ("--run=run.py", "--runner=ray", f"--ray_address={ray_address}")
    launcher = end_process(project.start(*flags))
    wait_for(lambda: seen(project))
    launcher.kill()
    launcher.wait(30)
    wait_for(lambda: seen(project) == ["on", "saved"])
    (project.directory / "go").touch()
    assert finish(end_process(project.start(*flags))) == 0
    assert len(project.jobs()["00_patient"]["attempts"]) == 2


def test_no_cluster_is_a_usage_error(project: Project, ray_address: str, end_process: Register) -> None:
    project.describe('"x", "true"')
    launcher = end_process(project.start("--run=run.py", "--runner=ray", "--ray_address=127.0.0.1:1"))
    output = launcher.communicate(timeout=120)[0]
    assert launcher.returncode == 2
    assert "--ray_address=127.0.0.1:1" in output
