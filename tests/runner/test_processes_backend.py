"""The launcher from end to end, with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from tests.runner.launching import Project, wait_for

Register = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
FAIL = '"fail", "python -c \'raise ValueError(42)\'"'
# Saves its process number, then waits to be told to stop; finishes at once when there is a file "go".
PATIENT = (
    # Noted when its child runs: one that is started after the signal would live on for the whole grace.
    '"patient", "bash -c \'[ -e go ] && exit 0; trap \\"echo saved >> pids; exit 75\\" TERM; '
    "sleep 600 & echo $$ >> pids; wait'\""
)

pytestmark = pytest.mark.processes


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pids(project: Project) -> list[int]:
    path = project.directory / "pids"
    return [int(line) for line in path.read_text().splitlines() if line.isdigit()] if path.exists() else []


def wait_for_line(launcher: subprocess.Popen[str], text: str) -> None:
    output = launcher.stdout
    assert output is not None
    wait_for(lambda: text in output.readline())


def test_all_completed_is_exit_code_zero(project: Project) -> None:
    run = project.describe('"x", "true", ParamGrid([("seed", [1, 2])]).generate_params(False)')
    assert project.launch(run) == 0
    assert project.states() == {"00_x_see_1": "COMPLETED", "01_x_see_2": "COMPLETED"}


def test_a_failing_job_is_exit_code_one_with_its_error_in_the_summary(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.launch(project.describe(FAIL, '"ok", "true"')) == 1
    assert project.states() == {"00_fail": "FAILED", "00_ok": "COMPLETED"}
    assert project.jobs()["00_fail"]["error"] == "ValueError: 42 (exit code 1)"
    summary = capsys.readouterr().err.splitlines()
    assert summary[-1].startswith("  FAILED 00_fail: ValueError: 42 (exit code 1) (log: ")


def test_each_job_has_a_log_of_its_own(project: Project) -> None:
    project.launch(project.describe('"a", "echo from a"', '"b", "bash -c \'echo from b >&2\'"'))
    assert "from a" in (project.run_dir() / "logs" / "00_a.log").read_text()
    assert "from b" in (project.run_dir() / "logs" / "00_b.log").read_text()


def test_leading_python_is_the_launchers_own(project: Project) -> None:
    project.launch(project.describe('"x", "python3 -c \'import sys; print(sys.executable)\'"'))
    log = (project.run_dir() / "logs" / "00_x.log").read_text().splitlines()
    assert os.path.samefile(log[-1], sys.executable)


def test_values_arrive_as_they_were_described(project: Project) -> None:
    value = "a  b 'c' $HOME *"
    run = project.describe(f'"x", "python -c \'import sys; print(sys.argv[1])\'", [{{"text": {value!r}}}]')
    project.launch(run)
    log = (project.run_dir() / "logs" / "00_x_tex_a-b-'c'-$HOME-*.log").read_text().splitlines()
    assert log[-1] == f"--text={value}"


def test_jobs_get_their_variables_and_their_gpu(project: Project) -> None:
    command = "bash -c 'echo gpu:$CUDA_VISIBLE_DEVICES variable:$COLOUR >> seen; sleep 0.2'"
    run = project.describe(f'"x", "{command}", [{{"a": i}} for i in range(4)], {{"COLOUR": "red"}}')
    project.launch(run, "--num_gpus=2", "--experiments_per_gpu=1", "--max_parallel=10")
    seen = (project.directory / "seen").read_text().split()
    assert seen.count("variable:red") == 4
    assert set(seen) == {"gpu:0", "gpu:1", "variable:red"}
    assert [job["attempts"][0]["gpu"] for job in project.jobs().values()][:2] == ["0", "1"]


def test_without_packing_the_visible_gpus_are_left_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    project.launch(project.describe('"x", "bash -c \'echo $CUDA_VISIBLE_DEVICES > seen\'"'))
    assert (project.directory / "seen").read_text() == "3,4\n"


def test_a_failed_job_is_retried_and_may_succeed(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo x >> tries; [ $(wc -l < tries) = 3 ]\'"')
    assert project.launch(run, "--max_retries=2") == 0
    assert len(project.jobs()["00_x"]["attempts"]) == 3


def test_exit_code_75_starts_a_job_again_without_counting_as_failure(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo x >> tries; [ $(wc -l < tries) = 3 ] || exit 75\'"')
    assert project.launch(run) == 0
    assert [attempt["exit_code"] for attempt in project.jobs()["00_x"]["attempts"]] == [75, 75, 0]


def test_a_job_over_its_time_limit_can_be_continued(project: Project) -> None:
    run = project.describe(
        '"x", "bash -c \'[ -e go ] && exit 0; trap \\"exit 75\\" USR1; while :; do sleep 60 & wait; done\'"'
    )
    assert project.launch(run, "--time=31s", "--time_margin=30") == 75
    assert project.states() == {"00_x": "TIMEOUT"}
    (project.directory / "go").touch()
    assert project.launch(run) == 0


def test_what_is_complete_does_not_run_again(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo x >> ran\'"')
    project.launch(run)
    project.launch(run)
    assert (project.directory / "ran").read_text() == "x\n"


def test_a_changed_command_runs_again(project: Project) -> None:
    project.launch(project.describe('"x", "bash -c \'echo x >> ran\'"'))
    project.launch(project.describe('"x", "bash -c \'echo y >> ran\'"'))
    assert (project.directory / "ran").read_text() == "x\ny\n"


def test_results_of_a_forgotten_launch_are_not_believed(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo x >> ran\'"')
    project.launch(run)
    (project.run_dir() / "manifest.json").unlink()
    project.launch(run)
    assert (project.directory / "ran").read_text() == "x\nx\n"


def test_an_experiment_whose_directory_was_deleted_runs_again(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo x >> ran; mkdir -p train_dir/run/x_/00_x\'"')
    project.launch(run)
    (project.run_dir() / "x_" / "00_x").rmdir()
    project.launch(run)
    assert (project.directory / "ran").read_text() == "x\nx\n"


def test_an_experiment_that_v1_finished_is_not_run(project: Project) -> None:
    directory = project.run_dir() / "x_" / "00_x"
    directory.mkdir(parents=True)
    (directory / "done").touch()
    assert project.launch(project.describe('"x", "false"')) == 0
    assert project.states() == {"00_x": "COMPLETED"}


def test_resume_failed_runs_only_what_failed(project: Project) -> None:
    run = project.describe(FAIL, '"x", "bash -c \'echo x >> ran\'"')
    project.launch(run)
    project.launch(run, "--resume=failed")
    assert (project.directory / "ran").read_text() == "x\n"
    assert len(project.jobs()["00_fail"]["attempts"]) == 2


def test_resume_all_runs_everything(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo x >> ran\'"')
    project.launch(run)
    project.launch(run, "--resume=all")
    assert (project.directory / "ran").read_text() == "x\nx\n"


def test_resume_none_refuses_a_run_that_exists(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    run = project.describe('"x", "true"')
    project.launch(run)
    assert project.launch(run, "--resume=none") == 2
    assert "--resume=missing" in capsys.readouterr().err


def test_a_killed_launcher_finishes_only_what_is_missing(project: Project, end_process: Register) -> None:
    project.describe(
        '"quick", "bash -c \'echo x >> ran\'"', PATIENT, '"late", "bash -c \'echo late >> ran\'"'
    )
    first = end_process(project.start("--run=run.py", "--max_parallel=1"))
    (pid,) = wait_for(lambda: pids(project))
    first.kill()
    first.wait(30)
    assert alive(pid)
    second = end_process(project.start("--run=run.py", "--max_parallel=1"))
    wait_for_line(second, "running already")
    os.kill(psutil.Process(pid).ppid(), signal.SIGQUIT)
    # The adopted job was killed, so the second launcher starts it again; this time it finishes.
    (project.directory / "go").touch()
    output = second.communicate(timeout=60)[0]
    assert second.returncode == 0, output
    assert (project.directory / "ran").read_text() == "x\nlate\n"
    assert {name: len(job["attempts"]) for name, job in project.jobs().items()} == {
        "00_quick": 1,
        "00_patient": 2,
        "00_late": 1,
    }


def test_a_job_that_ended_while_no_launcher_was_there_is_not_run_again(
    project: Project, end_process: Register
) -> None:
    project.describe('"x", "bash -c \'echo x >> ran; until [ -e go ]; do sleep 0.05; done\'"')
    first = end_process(project.start("--run=run.py"))
    wait_for(lambda: (project.directory / "ran").exists())
    first.kill()
    first.wait(30)
    (project.directory / "go").touch()
    result = project.run_dir() / "results" / "00_x.1.json"
    wait_for(lambda: re.search(r'"exit_code": 0', result.read_text()))
    assert project.launch("--run=run.py") == 0
    assert (project.directory / "ran").read_text() == "x\n"


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75), (signal.SIGHUP, 75)]
)
def test_stopping_the_launcher_lets_jobs_save_and_ends_them(
    project: Project, end_process: Register, number: signal.Signals, exit_code: int
) -> None:
    project.describe(PATIENT, '"queued", "true"')
    launcher = end_process(project.start("--run=run.py", "--max_parallel=1"))
    (pid,) = wait_for(lambda: pids(project))
    launcher.send_signal(number)
    launcher.communicate(timeout=60)
    assert launcher.returncode == exit_code
    assert not alive(pid)
    assert "saved" in (project.directory / "pids").read_text()
    assert project.states() == {"00_patient": "INTERRUPTED", "00_queued": "QUEUED"}


def test_interrupting_twice_kills_jobs_that_do_not_stop(project: Project, end_process: Register) -> None:
    project.describe('"x", "bash -c \'trap \\"\\" TERM; echo $$ >> pids; while true; do sleep 1; done\'"')
    launcher = end_process(project.start("--run=run.py", "--stop_grace=600"))
    (pid,) = wait_for(lambda: pids(project))
    launcher.send_signal(signal.SIGINT)
    wait_for_line(launcher, "asking 1 jobs to stop")
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=60)
    assert launcher.returncode == 130
    assert not alive(pid)


def test_two_launchers_of_one_run_do_not_mix(project: Project, end_process: Register) -> None:
    project.describe(PATIENT)
    end_process(project.start("--run=run.py"))
    wait_for(lambda: pids(project))
    second = end_process(project.start("--run=run.py"))
    output = second.communicate(timeout=60)[0]
    assert second.returncode == 2
    assert "is in use by process" in output


def test_status_of_a_finished_run_tells_states_and_reasons(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.launch(project.describe(FAIL, '"ok", "true"'))
    capsys.readouterr()
    assert project.launch("--status", "--run_name=run") == 1
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"00_fail +FAILED +1 +processes \d+ +\d:\d\d:\d\d +ValueError: 42", lines[1])
    assert lines[-1] == "1 completed, 1 failed"


def test_status_of_a_running_run_does_not_disturb_it(project: Project, end_process: Register) -> None:
    project.describe(PATIENT)
    launcher = end_process(project.start("--run=run.py"))
    (pid,) = wait_for(lambda: pids(project))
    assert project.launch("--status", "--run=run.py") == 0
    assert launcher.poll() is None
    assert alive(pid)


def test_status_without_a_run_is_exit_code_three(project: Project) -> None:
    assert project.launch("--status", "--run_name=nothing") == 3


def test_cancel_stops_launcher_and_jobs(project: Project, end_process: Register) -> None:
    project.describe(PATIENT, '"queued", "true"')
    launcher = end_process(project.start("--run=run.py", "--max_parallel=1"))
    (pid,) = wait_for(lambda: pids(project))
    assert project.launch("--cancel", "--run_name=run") == 0
    launcher.wait(30)
    assert not alive(pid)
    assert project.states() == {"00_patient": "INTERRUPTED", "00_queued": "QUEUED"}


def test_cancel_stops_jobs_whose_launcher_was_killed(project: Project, end_process: Register) -> None:
    project.describe(PATIENT)
    launcher = end_process(project.start("--run=run.py"))
    (pid,) = wait_for(lambda: pids(project))
    launcher.kill()
    launcher.wait(30)
    assert project.launch("--cancel", "--run_name=run") == 0
    assert not alive(pid)
    assert project.states() == {"00_patient": "INTERRUPTED"}


def test_set_up_lines_run_before_the_command(project: Project) -> None:
    run = project.describe('"x", "bash -c \'echo colour:$COLOUR > seen\'"')
    assert project.launch(run, "--setup", "export COLOUR=blue") == 0
    assert (project.directory / "seen").read_text() == "colour:blue\n"


def test_a_set_up_line_that_fails_is_the_jobs_failure(project: Project) -> None:
    assert project.launch(project.describe('"x", "true"'), "--setup=false") == 1


def test_threads_per_job_is_given_to_the_math_libraries(project: Project) -> None:
    project.launch(project.describe('"x", "bash -c \'echo $OMP_NUM_THREADS > seen\'"'), "--threads_per_job=3")
    assert (project.directory / "seen").read_text() == "3\n"


def test_launch_files_and_commands_are_beside_the_experiments(project: Project) -> None:
    project.launch(project.describe('"x", "echo", [{"a": "b c"}], {"N": "1"}'))
    commands = (project.run_dir() / "commands.txt").read_text()
    assert commands == (
        "env N=1 echo '--a=b c' --experiment=00_x_a_b-c --train_dir=./train_dir --experiments_root=run/x_\n"
    )


def test_dry_run_prints_commands_and_writes_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run = project.describe('"x", "echo", [{"a": 1}, {"a": 2}]')
    assert project.launch(run, "--dry_run") == 0
    assert capsys.readouterr().out.splitlines() == [
        "echo --a=1 --experiment=00_x_a_1 --train_dir=./train_dir --experiments_root=run/x_",
        "echo --a=2 --experiment=01_x_a_2 --train_dir=./train_dir --experiments_root=run/x_",
    ]
    assert not (project.directory / "train_dir").exists()


def test_jobs_of_another_back_end_must_be_finished_first(project: Project, end_process: Register) -> None:
    project.describe(PATIENT)
    launcher = end_process(project.start("--run=run.py"))
    wait_for(lambda: pids(project))
    launcher.kill()
    launcher.wait(30)
    project.write("submit.txt", "echo {{ experiment_cmd }}")
    flags = ("--run=run.py", "--runner=command", "--command_template=submit.txt")
    assert project.launch(*flags) == 2
    assert project.launch("--cancel", "--run_name=run") == 0
    assert project.launch(*flags) == 0


def test_a_damaged_manifest_is_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    run = project.describe('"x", "true"')
    project.launch(run)
    (project.run_dir() / "manifest.json").write_text("{")
    assert project.launch(run) == 2
    assert "manifest.json can't be used" in capsys.readouterr().err
