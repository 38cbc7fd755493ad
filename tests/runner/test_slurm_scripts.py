"""What Slurm is given, compared with texts written down here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sample_factory.runner.backends.slurm_scripts import (
    SlurmOptions,
    array_script,
    batch_script,
    job_id,
    sbatch_command,
)

OPTIONS = SlurmOptions(workdir=Path("work"), partition="gpu", gpus_per_job=2, margin_sec=180)
SCRIPT = Path("work/sbatch_00_x.sh")


def test_a_job_is_submitted_with_v1s_options_and_ours() -> None:
    assert " ".join(sbatch_command(OPTIONS, SCRIPT, "00_x")) == (
        "sbatch -p gpu --gres=gpu:2 -c 28 --parsable --output work/sbatch_00_x.sh-slurm-%j.out "
        "--job-name=00_x --export=ALL --open-mode=append --requeue --signal=B:USR1@180 work/sbatch_00_x.sh"
    )


def test_every_resource_has_its_option() -> None:
    options = replace(
        OPTIONS,
        partition=None,
        gpus_per_job=0,
        cpus_per_gpu=3,
        mem_gb=8,
        account="acc",
        qos="low",
        constraint="a100",
        nodes=2,
        ntasks=4,
        extra="--mail-type=END --comment='a b'",
        requeue=False,
        time_limit_sec=7200,
    )
    assert sbatch_command(options, SCRIPT, "00_x")[1:] == [
        "-c",
        "3",
        "--parsable",
        "--output",
        "work/sbatch_00_x.sh-slurm-%j.out",
        "--job-name=00_x",
        "--export=ALL",
        "--open-mode=append",
        "--no-requeue",
        "--time=0-02:00:00",
        "--signal=B:USR1@180",
        "--mem=8G",
        "--account=acc",
        "--qos=low",
        "--constraint=a100",
        "--nodes=2",
        "--ntasks=4",
        "--mail-type=END",
        "--comment=a b",
        "work/sbatch_00_x.sh",
    ]


def test_the_warning_comes_early_enough_in_a_short_job() -> None:
    command = sbatch_command(replace(OPTIONS, time_limit_sec=60), SCRIPT, "x")
    assert "--signal=B:USR1@30" in command


@pytest.mark.parametrize(("parallelism", "expected"), [(0, "--array=0-59"), (12, "--array=0-59%12")])
def test_an_array_may_limit_how_many_tasks_run(parallelism: int, expected: str) -> None:
    command = sbatch_command(replace(OPTIONS, array=True, array_parallelism=parallelism), SCRIPT, "run", 60)
    assert expected in command
    assert "work/sbatch_00_x.sh-slurm-%A_%a.out" in command


def test_without_a_template_a_script_has_no_personal_paths() -> None:
    assert batch_script(OPTIONS, ["exec python x"], ["python", "x"], SCRIPT) == "#!/bin/bash\nexec python x\n"


def test_v1s_template_comes_first() -> None:
    options = replace(OPTIONS, template="#!/bin/bash\nconda activate $MY_ENV\n")
    text = batch_script(options, ["exec python x"], ["python", "x"], SCRIPT)
    assert text == "#!/bin/bash\nconda activate $MY_ENV\nexec python x\n"


def test_a_template_with_cmd_is_filled_in_and_foreign_names_stay() -> None:
    options = replace(
        OPTIONS,
        template="#SBATCH -p $PARTITION -c $CPU\ntimeout $TIMEOUT $CMD || sbatch $FILENAME $HOME $$\n",
    )
    text = batch_script(replace(options, time_limit_sec=3600), ["unused"], ["python", "a b"], SCRIPT)
    assert text == (
        "#SBATCH -p gpu -c 28\ntimeout 0-01:00:00 python 'a b' || sbatch work/sbatch_00_x.sh $HOME $\n"
    )


def test_with_such_a_template_signals_are_the_users_business() -> None:
    command = sbatch_command(replace(OPTIONS, template="$CMD"), SCRIPT, "x")
    assert not any(option.startswith("--signal") for option in command)


def test_an_array_script_becomes_the_script_of_its_task() -> None:
    text = array_script([Path("/a b/0.sh"), Path("/a/1.sh")])
    assert text == (
        "#!/bin/bash\nscripts=(\n  '/a b/0.sh'\n  /a/1.sh\n)\nexec \"${scripts[$SLURM_ARRAY_TASK_ID]}\"\n"
    )


@pytest.mark.parametrize(
    ("output", "expected"), [("12\n", "12"), ("12;cluster\n", "12"), ("", ""), ("hi\n7\n", "7")]
)
def test_the_job_id_is_found_in_sbatchs_answer(output: str, expected: str) -> None:
    assert job_id(output) == expected


def test_a_token_stands_behind_the_users_own_comment() -> None:
    options = SlurmOptions(Path("w"), extra="--comment='for the paper' --nice=5")
    command = sbatch_command(options, Path("w/s.sh"), "name", token="sf-1")
    assert command[-2:] == ["--comment=for the paper sf-1", "w/s.sh"]
