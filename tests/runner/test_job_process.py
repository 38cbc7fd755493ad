"""The supervisor beside each job, as a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from sample_factory.runner import job_process
from sample_factory.runner.results import process_alive, read_result
from tests.runner.launching import Recorder, wait_for

SUPERVISOR = [sys.executable, "-I", "-S", job_process.__file__]

pytestmark = pytest.mark.processes


class Supervised:
    """A supervised shell command."""

    def __init__(self, directory: Path, script: str, *options: str, **popen: Any):
        self.result_path = directory / "result.json"
        self.log = directory / "log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *SUPERVISOR,
                    str(self.result_path),
                    *options,
                    f"--cwd={directory}",
                    "--",
                    "bash",
                    "-c",
                    script,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **popen,
            )

    def result(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.result_path.read_text())
        return content

    def wait_for_output(self, text: str) -> None:
        wait_for(lambda: text in self.log.read_text())


def test_exit_code_zero_is_recorded_with_times(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "echo hello")
    assert job.process.wait(30) == 0
    assert job.result()["exit_code"] == 0
    assert job.result()["started"] <= job.result()["stopped"]
    assert "hello" in job.log.read_text()


def test_the_exit_code_of_the_command_is_passed_on(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "exit 7")
    assert job.process.wait(30) == 7
    assert job.result()["exit_code"] == 7


def test_a_signal_that_killed_the_command_is_recorded(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "kill -SEGV $$")
    assert job.process.wait(30) == 128 + signal.SIGSEGV
    assert job.result()["exit_code"] == -signal.SIGSEGV


def test_a_command_that_does_not_exist_says_so(tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    command = [*SUPERVISOR, str(result), "--", "no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "error: No such file or directory: no-such-program" in done.stdout


def test_two_dashes_of_the_command_stay_with_it(tmp_path: Path) -> None:
    command = [*SUPERVISOR, str(tmp_path / "r.json"), "--", "echo", "--", "a", "--grace=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "-- a --grace=1"


def test_who_runs_the_job_is_known_before_it_ends(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "echo ready; read -t 60 < <(sleep 60)")
    job.wait_for_output("ready")
    result = read_result(job.result_path)
    assert result is not None and result.pid == job.process.pid and result.exit_code is None
    assert process_alive(result.pid, result.started)
    job.process.send_signal(signal.SIGQUIT)
    job.process.wait(30)


def test_sigterm_lets_the_job_save_and_records_who_asked(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "trap 'echo saved; exit 75' TERM; sleep 60 & echo ready; wait")
    job.wait_for_output("ready")
    job.process.terminate()
    assert job.process.wait(30) == 75
    assert "saved" in job.log.read_text()
    assert (job.result()["exit_code"], job.result()["stopped_by"]) == (75, "SIGTERM")


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "trap '' TERM; echo ready; while true; do sleep 1; done", "--grace=0.2")
    job.wait_for_output("ready")
    job.process.terminate()
    job.process.wait(30)
    assert job.result()["exit_code"] == -signal.SIGKILL


def test_sigquit_kills_at_once(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "trap '' TERM INT; echo ready; while true; do sleep 1; done", "--grace=600")
    job.wait_for_output("ready")
    job.process.send_signal(signal.SIGQUIT)
    job.process.wait(30)
    assert job.result()["exit_code"] == -signal.SIGKILL


def test_processes_that_a_command_leaves_behind_are_ended(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "sleep 300 & echo pid:$!; exit 0")
    job.process.wait(30)
    pid = int(job.log.read_text().split("pid:")[1].split()[0])
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_the_job_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "echo pid:$$; exec sleep 300")
    job.wait_for_output("pid:")
    pid = int(job.log.read_text().split("pid:")[1].split()[0])
    job.process.kill()
    job.process.wait(30)
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_before_its_time_limit_the_command_is_asked_to_leave(tmp_path: Path) -> None:
    script = "trap 'echo saved; exit 75' USR1; while true; do sleep 60 & wait; done"
    job = Supervised(tmp_path, script, "--time_limit=31", "--margin=30")
    assert job.process.wait(30) == 75
    assert "saved" in job.log.read_text()
    assert job.result()["timed_out"] is True


def test_a_command_that_finishes_before_its_limit_did_not_time_out(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "true", "--time_limit=600")
    job.process.wait(30)
    assert job.result()["timed_out"] is False


def test_variables_can_come_on_standard_input(tmp_path: Path) -> None:
    job = Supervised(tmp_path, 'echo "value:$SECRET_KEY"', "--env_from_stdin", stdin=subprocess.PIPE)
    job.process.communicate(json.dumps({"SECRET_KEY": "abc"}).encode(), timeout=30)
    assert "value:abc" in job.log.read_text()


def test_a_command_does_not_inherit_an_ignored_interrupt(tmp_path: Path) -> None:
    script = f"{sys.executable} -c 'import signal; print(signal.getsignal(signal.SIGINT))'"
    job = Supervised(tmp_path, script, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    job.process.wait(30)
    assert "default_int_handler" in job.log.read_text()


def test_after_exit_code_75_slurm_is_asked_to_requeue(tmp_path: Path, recorder: Recorder) -> None:
    recorder.install("scontrol")
    recorder.install("squeue", "echo RUNNING")
    job = Supervised(tmp_path, "exit 75", "--slurm_requeue", env={**os.environ, "SLURM_JOB_ID": "12"})
    job.process.wait(30)
    assert [arguments for arguments, _ in recorder.calls("scontrol")] == [["requeue", "12"]]
    assert job.result()["requeued"] is True


def test_a_task_of_an_array_is_requeued_by_its_own_number(tmp_path: Path, recorder: Recorder) -> None:
    recorder.install("scontrol")
    recorder.install("squeue", "echo RUNNING")
    variables = {"SLURM_JOB_ID": "15", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}
    Supervised(tmp_path, "exit 75", "--slurm_requeue", env={**os.environ, **variables}).process.wait(30)
    assert [arguments for arguments, _ in recorder.calls("scontrol")] == [["requeue", "12_3"]]


def test_a_cancelled_job_is_not_requeued(tmp_path: Path, recorder: Recorder) -> None:
    recorder.install("scontrol")
    recorder.install("squeue", "echo RUNNING")
    job = Supervised(tmp_path, "trap 'exit 75' TERM; sleep 60 & echo ready; wait", "--slurm_requeue")
    job.wait_for_output("ready")
    job.process.terminate()
    job.process.wait(30)
    assert recorder.calls("scontrol") == []
    assert job.result()["requeued"] is False


def test_a_job_that_slurm_is_ending_is_not_requeued(tmp_path: Path, recorder: Recorder) -> None:
    recorder.install("scontrol")
    recorder.install("squeue", "echo COMPLETING")
    job = Supervised(tmp_path, "exit 75", "--slurm_requeue")
    job.process.wait(30)
    assert recorder.calls("scontrol") == []
    assert job.result()["requeued"] is False


def test_a_refused_requeue_is_not_believed(tmp_path: Path, recorder: Recorder) -> None:
    recorder.install("scontrol", "exit 1")
    recorder.install("squeue", "echo RUNNING")
    job = Supervised(tmp_path, "exit 75", "--slurm_requeue")
    job.process.wait(30)
    assert job.result()["requeued"] is False


def test_a_process_number_that_was_given_to_another_is_not_alive() -> None:
    assert process_alive(os.getpid(), seen_at=psutil.Process().create_time() + 1)
    assert not process_alive(os.getpid(), seen_at=psutil.Process().create_time() - 3600)


@pytest.mark.parametrize("content", ["", "{", "[]"[:1]])
def test_half_a_result_is_no_result(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    assert read_result(path) is None
