"""A real tmux server."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.runner.launching import Project, wait_for

Register = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
TMUX = "--runner=tmux"
FAIL = '"fail", "python -c \'raise ValueError(42)\'"'
PATIENT = (
    '"patient", "bash -c \'[ -e go ] && exit 0; trap \\"echo saved >> seen; exit 75\\" TERM; '
    "sleep 600 & echo on >> seen; wait'\""
)

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("tmux")]


def seen(project: Project) -> list[str]:
    path = project.directory / "seen"
    return path.read_text().splitlines() if path.exists() else []


def sessions() -> list[str]:
    done = subprocess.run(["tmux", "ls", "-F", "#S"], capture_output=True, text=True, check=False)
    return done.stdout.split()


def windows(session: str) -> list[str]:
    done = subprocess.run(
        ["tmux", "list-windows", "-t", session, "-F", "#W"], capture_output=True, text=True, check=False
    )
    return done.stdout.split()


def test_jobs_run_in_windows_and_their_results_are_known(project: Project) -> None:
    run = project.describe(FAIL, '"ok", "echo hello", [{"seed": 1}, {"seed": 2}]')
    assert project.launch(run, TMUX) == 1
    assert project.states() == {"00_fail": "FAILED", "00_ok_see_1": "COMPLETED", "01_ok_see_2": "COMPLETED"}
    assert project.jobs()["00_fail"]["error"] == "ValueError: 42 (exit code 1)"
    assert "hello" in (project.run_dir() / "logs" / "00_ok_see_1.log").read_text()
    assert sessions() == []


def test_a_window_shows_what_its_job_prints(project: Project, end_process: Register) -> None:
    project.describe('"x", "bash -c \'echo hello there; until [ -e go ]; do sleep 0.1; done\'"')
    launcher = end_process(project.start("--run=run.py", TMUX))
    show = ["tmux", "capture-pane", "-p", "-t", "fixed-run:job00"]
    wait_for(
        lambda: "hello there" in subprocess.run(show, capture_output=True, text=True, check=False).stdout
    )
    (project.directory / "go").touch()
    launcher.communicate(timeout=30)
    assert launcher.returncode == 0


def test_no_more_windows_than_max_parallel(project: Project) -> None:
    command = "bash -c 'echo + >> seen; sleep 0.3; echo - >> seen'"
    assert (
        project.launch(
            project.describe(f'"x", "{command}", [{{"a": i}} for i in range(4)]'), TMUX, "--max_parallel=2"
        )
        == 0
    )
    running = [sum(1 if line == "+" else -1 for line in seen(project)[: n + 1]) for n in range(8)]
    assert max(running) <= 2


def test_interrupting_the_launcher_lets_jobs_save(project: Project, end_process: Register) -> None:
    project.describe(PATIENT)
    launcher = end_process(project.start("--run=run.py", TMUX))
    wait_for(lambda: seen(project))
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=60)
    assert launcher.returncode == 130
    assert seen(project) == ["on", "saved"]
    assert project.states() == {"00_patient": "INTERRUPTED"}


def test_windows_survive_a_killed_launcher_and_are_adopted(project: Project, end_process: Register) -> None:
    project.describe('"x", "bash -c \'echo on >> seen; until [ -e go ]; do sleep 0.1; done\'"')
    launcher = end_process(project.start("--run=run.py", TMUX))
    wait_for(lambda: seen(project))
    launcher.kill()
    launcher.wait(30)
    (project.directory / "go").touch()
    assert project.launch("--run=run.py", TMUX) == 0
    assert seen(project) == ["on"]
    assert sessions() == []


def test_without_waiting_the_launcher_moves_into_the_session(project: Project) -> None:
    run = project.describe(
        '"x", "bash -c \'until [ -e go ]; do sleep 0.1; done\'", [{"seed": 1}, {"seed": 2}]'
    )
    assert project.launch(run, TMUX, "--no-wait", "--max_parallel=1") == 0
    wait_for(lambda: windows("fixed-02seeds-run") == ["launcher", "job00"])
    (project.directory / "go").touch()
    wait_for(lambda: sessions() == [])
    assert set(project.states().values()) == {"COMPLETED"}


@pytest.mark.parametrize("flags", [[], ["--no-wait"]])
def test_secrets_reach_windows_and_no_file(project: Project, flags: list[str]) -> None:
    key = "0123456789abcdef'key"
    run = project.describe('"x", "bash -c \'echo ${#WANDB_API_KEY} > seen\'"')
    assert project.launch(run, TMUX, f"--wandb_api_key={key}", *flags) == 0
    assert wait_for(lambda: seen(project)) == [str(len(key))]
    wait_for(lambda: sessions() == [])
    assert key not in project.everything_written()


def test_the_session_of_another_run_is_not_touched(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["tmux", "new-session", "-d", "-s", "mine"], check=True)
    assert project.launch(project.describe('"x", "true"'), TMUX, "--tmux_session=mine") == 2
    assert "another --tmux_session" in capsys.readouterr().err
    assert windows("mine") != []


def test_prepared_files_make_the_session_without_us(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run = project.describe('"x", "bash -c \'echo ran > seen\'", [{"seed": 1}]')
    assert project.launch(run, TMUX, "--no-deploy_now") == 0
    assert capsys.readouterr().out == "tmuxp load -d train_dir/run/tmux/fixed-01seeds-run.yaml\n"
    text = (project.run_dir() / "tmux" / "fixed-01seeds-run.yaml").read_text()
    script = project.run_dir() / "spawn" / "00_x_see_1.sh"
    assert text == (
        "session_name: fixed-01seeds-run\nwindows:\n- window_name: job00\n  focus: false\n"
        f"  panes:\n  - {script}\n"
    )
    (project.run_dir() / "logs").mkdir(exist_ok=True)
    assert subprocess.run([str(script)], check=False).returncode == 0
    assert seen(project) == ["ran"]
    wait_for(lambda: not _following(project.run_dir() / "logs"))


def _following(logs: Path) -> list[psutil.Process]:
    """Programs that show a job's log."""
    shown = psutil.process_iter(["cmdline"])
    return [process for process in shown if str(logs) in " ".join(process.info["cmdline"] or ())]


def test_launch_files_are_removed_if_wished(project: Project) -> None:
    assert project.launch(project.describe('"x", "true"'), TMUX, "--clear") == 0
    assert not (project.run_dir() / "spawn").exists()
    assert (project.run_dir() / "manifest.json").exists()
