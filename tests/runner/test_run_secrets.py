"""Keys and passwords stay in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.secrets import check_command, is_secret_variable, redacted, stripped
from tests.runner.launching import Project, Recorder

KEY = "0123456789abcdef-key"
SHOW = '"x", "bash -c \'echo ${#WANDB_API_KEY} > seen\'"'


def test_a_key_from_the_command_line_reaches_jobs_and_no_file(project: Project) -> None:
    assert project.launch(project.describe(SHOW), f"--wandb_api_key={KEY}") == 0
    assert (project.directory / "seen").read_text() == f"{len(KEY)}\n"
    assert KEY not in project.everything_written()


def test_a_key_of_an_experiment_reaches_its_job_and_only_its_name_is_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    run = project.describe(SHOW + ', env_vars={"WANDB_API_KEY": __import__("os").environ["MY_KEY"]}')
    assert project.launch(run) == 0
    assert (project.directory / "seen").read_text() == f"{len(KEY)}\n"
    assert project.jobs()["00_x"]["env"] == {"WANDB_API_KEY": "***"}
    assert KEY not in project.everything_written()


def test_prepared_slurm_scripts_ask_for_keys_by_name(project: Project) -> None:
    run = project.describe(SHOW + ', env_vars={"COLOUR": "red"}')
    flags = ("--runner=slurm", "--no-deploy_now", f"--wandb_api_key={KEY}")
    assert project.launch(run, *flags) == 0
    script = (project.run_dir() / "slurm" / "sbatch_00_x.sh").read_text()
    assert ': "${WANDB_API_KEY:?export WANDB_API_KEY first, it is not written to files}"' in script
    assert "export COLOUR=red" in script
    assert KEY not in project.everything_written()


def test_containers_get_keys_by_name(project: Project, recorder: Recorder) -> None:
    recorder.install("docker")
    flags = ("--docker", "--docker_image=image", f"--wandb_api_key={KEY}")
    assert project.launch(project.describe('"x", "true"'), *flags) == 0
    ((arguments, environment),) = recorder.calls("docker")
    assert arguments[arguments.index("-e") + 1] == "WANDB_API_KEY"
    assert KEY not in " ".join(arguments)
    assert environment["WANDB_API_KEY"] == KEY


@pytest.mark.parametrize("flag", ["--wandb_api_key", "--hf_token", "--password"])
def test_a_secret_flag_in_a_command_is_refused_without_repeating_it(flag: str) -> None:
    with pytest.raises(RunnerError, match=flag) as caught:
        check_command(["python", f"{flag}={KEY}"], {})
    assert KEY not in str(caught.value)


def test_the_value_of_a_secret_variable_in_a_command_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", KEY)
    with pytest.raises(RunnerError, match="SOME_TOKEN"):
        check_command(["curl", f"https://host/{KEY}"], {})


def test_ordinary_flags_that_sound_similar_are_fine() -> None:
    check_command(["train", "--obs_keys=a", "--max_tokens=5", "--keyboard=us"], {})


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("WANDB_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("HF_TOKEN", True),
        ("OMP_NUM_THREADS", False),
    ],
)
def test_variables_are_judged_by_their_names(name: str, secret: bool) -> None:
    assert is_secret_variable(name) is secret


def test_our_own_command_line_is_recorded_without_secrets() -> None:
    argv = ["--wandb_api_key", "a", "--run=x", "--wandb_api_key=b"]
    assert redacted(argv) == ["--wandb_api_key", "***", "--run=x", "--wandb_api_key=***"]
    assert stripped(argv) == ["--run=x"]


def test_scripts_are_for_their_owner_only(project: Project) -> None:
    project.launch(project.describe('"x", "true"'), "--runner=slurm", "--no-deploy_now")
    path: Path = project.run_dir() / "slurm" / "sbatch_00_x.sh"
    assert path.stat().st_mode & 0o777 == 0o700
