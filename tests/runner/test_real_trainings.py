"""Two environments with three seeds, trained for real in every place where jobs can run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.runner.launching import Project, wait_for

Register = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
TRAINING = """\
run_name: run
name: small
envs: [gym_CartPole-v1, gym_Acrobot-v1]
seeds: {num: 3}
params:
  train_for_env_steps: 6e2
  num_workers: 1
  num_envs_per_worker: 2
  worker_num_splits: 1
  batch_size: 128
  use_rnn: false
  device: cpu
  serial_mode: true
  decorrelate_experience_max_seconds: 0
runner: {max_parallel: 2, threads_per_job: 1, slurm_gpus_per_job: 0, slurm_cpus_per_gpu: 1, slurm_poll: 1}
"""
NAMES = [
    f"{index:02d}_small_env_{env}_see_{seed}"
    for index, (env, seed) in enumerate(
        (env, seed) for env in ("gym_CartPole-v1", "gym_Acrobot-v1") for seed in range(3)
    )
]

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(900)]


def check_results(project: Project) -> None:
    """Every experiment is complete, has a checkpoint, and was trained with its own seed and environment."""
    assert project.states() == dict.fromkeys(NAMES, "COMPLETED")
    for name in NAMES:
        directory = project.run_dir() / "small_" / name
        cfg = json.loads((directory / "cfg.json").read_text())
        assert f"_env_{cfg['env']}_see_{cfg['seed']}" in name
        assert (directory / "done").exists()
        assert list((directory / "checkpoint_p0").glob("checkpoint_*.pth"))


def test_on_this_machine_with_a_launcher_that_is_killed_in_the_middle(
    project: Project, end_process: Register
) -> None:
    project.write("run.yaml", TRAINING)
    first = end_process(project.start("--config=run.yaml"))
    wait_for(lambda: list(project.run_dir().glob("small_/*/done")), timeout=300)
    first.kill()
    first.wait(30)
    second = end_process(project.start("--config=run.yaml"))
    output = second.communicate(timeout=600)[0]
    assert second.returncode == 0, output
    check_results(project)
    # What was complete or running went on; nothing was trained twice.
    assert [len(job["attempts"]) for job in project.jobs().values()] == [1] * 6


@pytest.mark.usefixtures("slurm")
def test_on_slurm(project: Project) -> None:
    project.write("run.yaml", TRAINING)
    assert project.launch("--config=run.yaml", "--runner=slurm", "--wait", "--slurm_array") == 0
    check_results(project)


@pytest.mark.long
@pytest.mark.usefixtures("tmux")
def test_in_tmux(project: Project) -> None:
    project.write("run.yaml", TRAINING)
    assert project.launch("--config=run.yaml", "--runner=tmux") == 0
    check_results(project)


@pytest.mark.long
def test_on_ray(project: Project, ray_address: str, end_process: Register) -> None:
    project.write("run.yaml", TRAINING)
    flags = ("--runner=ray", f"--ray_address={ray_address}", "--ray_cpus_per_job=1")
    launcher = end_process(project.start("--config=run.yaml", *flags))
    output = launcher.communicate(timeout=800)[0]
    assert launcher.returncode == 0, output
    check_results(project)


def test_a_training_that_cannot_work_fails_with_its_reason(project: Project) -> None:
    run = project.describe(
        '"bad", "python -m sample_factory.algorithms.appo.train_appo --env=gym_CartPole-v1 --rollout=0"'
    )
    assert project.launch(run, "--max_retries=3") == 1
    job = project.jobs()["00_bad"]
    assert "--rollout=0" in job["error"]
    assert len(job["attempts"]) == 1
