"""NGC, other programs through templates, and containers, against programs that record how they are called."""

from __future__ import annotations

import shlex

import pytest

from sample_factory.runner.containers import Container
from tests.runner.launching import Project, Recorder

TEMPLATE = """\
ngc batch run \\
  --name "{{ name }}" --preempt RUNONCE \\
  --commandline "cd /workspace; {{ experiment_cmd }}" \\
  --result /results
"""
COMMAND = "python -m train --a=1 --experiment=00_x_a_1 --train_dir=./train_dir --experiments_root=run/x_"
X = '"x", "python -m train", [{"a": 1}]'


def test_ngc_is_called_with_the_template_filled_in(project: Project, recorder: Recorder) -> None:
    recorder.install("ngc", "echo Job created 4711")
    project.write("job.txt", TEMPLATE)
    assert project.launch(project.describe(X), "--runner=ngc", "--ngc_job_template=job.txt") == 0
    ((arguments, _),) = recorder.calls("ngc")
    assert arguments == shlex.split(
        "batch run --name 00_x_a_1 --preempt RUNONCE "
        f'--commandline "cd /workspace; {COMMAND}" --result /results'
    )
    job = project.jobs()["00_x_a_1"]
    assert (job["state"], job["attempts"][0]["id"]) == ("SUBMITTED", "Job created 4711")


def test_ngc_print_only_prints_one_line_and_runs_nothing(
    project: Project, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.install("ngc")
    project.write("job.txt", TEMPLATE)
    flags = ("--runner=ngc", "--ngc_job_template=job.txt", "--ngc_print_only=True")
    assert project.launch(project.describe(X), *flags) == 0
    assert capsys.readouterr().out == (
        'ngc batch run --name "00_x_a_1" --preempt RUNONCE '
        f'--commandline "cd /workspace; {COMMAND}" --result /results\n'
    )
    assert recorder.calls("ngc") == []


def test_ngc_without_a_template_names_the_flag(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.launch(project.describe(X), "--runner=ngc") == 2
    assert "--ngc_job_template is missing" in capsys.readouterr().err


def test_a_submission_that_fails_is_a_failed_job(project: Project, recorder: Recorder) -> None:
    recorder.install("ngc", "echo error: no quota >&2; exit 3")
    project.write("job.txt", TEMPLATE)
    assert project.launch(project.describe(X), "--runner=ngc", "--ngc_job_template=job.txt") == 1
    assert "no quota" in project.jobs()["00_x_a_1"]["error"]


def test_a_submitted_job_is_not_submitted_again_and_completes_with_its_done_file(
    project: Project, recorder: Recorder
) -> None:
    recorder.install("ngc")
    project.write("job.txt", TEMPLATE)
    flags = (project.describe(X), "--runner=ngc", "--ngc_job_template=job.txt")
    project.launch(*flags)
    project.launch(*flags)
    assert len(recorder.calls("ngc")) == 1
    directory = project.run_dir() / "x_" / "00_x_a_1"
    directory.mkdir(parents=True)
    (directory / "done").touch()
    assert project.launch("--status", "--run_name=run") == 0
    assert project.states() == {"00_x_a_1": "COMPLETED"}


def test_cancelling_what_is_out_of_reach_says_so(
    project: Project, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.install("ngc", "echo 4711")
    project.write("job.txt", TEMPLATE)
    project.launch(project.describe(X), "--runner=ngc", "--ngc_job_template=job.txt")
    assert project.launch("--cancel", "--run_name=run") == 2
    assert "4711" in capsys.readouterr().err


def test_a_command_that_lasts_as_long_as_its_job_gives_the_exit_code(project: Project) -> None:
    project.write("job.txt", "bash -c '{{ experiment_cmd }}; exit 4' # {{ name }} in {{ train_dir }}")
    flags = ("--runner=command", "--command_template=job.txt", "--wait")
    assert project.launch(project.describe('"x", "echo hello"'), *flags) == 1
    job = project.jobs()["00_x"]
    assert job["attempts"][0]["exit_code"] == 4
    assert "hello" in (project.run_dir() / "logs" / "00_x.log").read_text()


def test_docker_wraps_the_command_of_a_process(project: Project, recorder: Recorder) -> None:
    recorder.install("docker")
    flags = ("--docker", "--docker_image=team/image:1", "--container_args=--ipc=host")
    assert project.launch(project.describe(X), *flags, "--num_gpus=1", "--experiments_per_gpu=1") == 0
    ((arguments, _),) = recorder.calls("docker")
    here = str(project.directory)
    assert arguments == shlex.split(
        f"run --rm --init -v {here}:/workspace -w /workspace --gpus device=0 --ipc=host "
        f"team/image:1 {COMMAND}"
    )


def test_singularity_is_the_container_on_slurm(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--runner=slurm", "--docker", "--docker_image=image.sif", "--slurm_print_only")
    assert project.launch(project.describe(X), *flags) == 0
    script = (project.run_dir() / "slurm" / "sbatch_00_x_a_1.sh").read_text()
    assert (
        f"-- singularity exec --nv -B {project.directory}:/workspace --pwd /workspace image.sif {COMMAND}"
        in script
    )


def test_a_train_dir_elsewhere_is_visible_in_the_container(project: Project) -> None:
    wrapped = Container("apptainer", "image.sif", "/data/train").wrap(["cmd"], [], None)
    assert wrapped[wrapped.index("/data/train:/data/train") - 1] == "-B"
    assert wrapped[:2] == ["apptainer", "exec"]
    assert "--nv" not in wrapped


def test_a_container_without_an_image_names_the_flag(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.launch(project.describe(X), "--docker") == 2
    assert "--docker_image" in capsys.readouterr().err
