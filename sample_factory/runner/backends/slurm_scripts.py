"""What Slurm is given: the text of batch scripts and the options of `sbatch`.

Pure functions, so that tests need no cluster. Options, file names and templates are v1's, with Sample
Factory 2's `$CMD` templates beside them.
"""

from __future__ import annotations

import shlex
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sample_factory.runner.durations import slurm_time

_FIRST_LINE = "#!/bin/bash"


@dataclass(frozen=True)
class SlurmOptions:
    """The `--slurm_*` flags.

    Attributes:
        workdir: where scripts and logs go.
        template: the text of `--slurm_sbatch_template`; empty for none.
        time_limit_sec: 0 leaves it to the partition.
        margin_sec: how long before the limit jobs are warned.
    """

    workdir: Path
    gpus_per_job: int = 1
    cpus_per_gpu: int = 14
    partition: str | None = None
    template: str = ""
    array: bool = False
    array_parallelism: int = 0
    mem_gb: int | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    nodes: int = 1
    ntasks: int = 1
    extra: str = ""
    requeue: bool = True
    time_limit_sec: int = 0
    margin_sec: float = 120.0
    poll_sec: float = 10.0

    @property
    def cpus_per_job(self) -> int:
        """CPUs of one job; jobs without a GPU get as many as one GPU would bring."""
        return self.cpus_per_gpu * max(self.gpus_per_job, 1)

    @property
    def template_has_command(self) -> bool:
        """Whether the template says itself where the command goes, as in Sample Factory 2."""
        return "CMD" in string.Template(self.template).get_identifiers()


def sbatch_command(
    options: SlurmOptions, script: Path, job_name: str, array_size: int = 0, token: str = ""
) -> list[str]:
    """The command that submits a script.

    Args:
        options: what the user wants of the cluster.
        script: the batch script.
        job_name: as `squeue` shows it.
        array_size: how many tasks an array has; 0 for a single job.
        token: a word to find the job by, in its comment.
    """
    number = "%A_%a" if array_size else "%j"
    command = ["sbatch"]
    command += ["-p", options.partition] if options.partition else []
    command += [f"--gres=gpu:{options.gpus_per_job}"] if options.gpus_per_job else []
    command += ["-c", str(options.cpus_per_job), "--parsable"]
    command += ["--output", f"{options.workdir}/{script.name}-slurm-{number}.out"]
    command += [f"--job-name={job_name}", "--export=ALL", "--open-mode=append"]
    command += ["--requeue" if options.requeue else "--no-requeue"]
    if array_size:
        limit = f"%{options.array_parallelism}" if options.array_parallelism else ""
        command.append(f"--array=0-{array_size - 1}{limit}")
    return [
        *command,
        *_time_options(options),
        *_resource_options(options),
        *shlex.split(options.extra),
        *([_comment(options, token)] if token else []),
        str(script),
    ]


def output_file(command: Sequence[str], name: str) -> str:
    """Where the job with this id writes, by the command that submits it."""
    pattern = command[command.index("--output") + 1]
    return pattern.replace("%A_%a", name).replace("%j", name)


def _comment(options: SlurmOptions, token: str) -> str:
    """The token after the user's own comment, if there is one."""
    own = [word.partition("=")[2] for word in shlex.split(options.extra) if word.startswith("--comment=")]
    return f"--comment={' '.join([*own, token])}"


def batch_script(options: SlurmOptions, lines: Sequence[str], command: Sequence[str], script: Path) -> str:
    """The text of a batch script.

    Args:
        options: holds the template.
        lines: the end of the script, which runs the command.
        command: the command alone, for templates that say where it goes.
        script: where the text will be.
    """
    if not options.template_has_command:
        return "\n".join([options.template.rstrip() or _FIRST_LINE, *lines, ""])
    return string.Template(options.template).safe_substitute(
        CMD=shlex.join(command),
        FILENAME=str(script),
        PARTITION=options.partition or "",
        GPU=options.gpus_per_job,
        CPU=options.cpus_per_job,
        TIMEOUT=slurm_time(options.time_limit_sec) if options.time_limit_sec else "0",
    )


def array_script(scripts: Sequence[Path]) -> str:
    """A batch script whose tasks are the given scripts."""
    listed = [f"  {shlex.quote(str(script.absolute()))}" for script in scripts]
    return "\n".join([_FIRST_LINE, "scripts=(", *listed, ")", 'exec "${scripts[$SLURM_ARRAY_TASK_ID]}"', ""])


def job_id(output: str) -> str:
    """The id in what `sbatch --parsable` prints: `id` or `id;cluster`."""
    return output.strip().splitlines()[-1].split(";")[0] if output.strip() else ""


def _time_options(options: SlurmOptions) -> list[str]:
    """The limit, and a warning before it; with a template of its own, a user decides what signals do."""
    limit, margin = options.time_limit_sec, options.margin_sec
    command = [f"--time={slurm_time(limit)}"] if limit else []
    if not options.template_has_command:
        seconds = int(min(margin, limit / 2) if limit else margin)
        command.append(f"--signal=B:USR1@{seconds}")
    return command


def _resource_options(options: SlurmOptions) -> list[str]:
    values = {
        "--mem": f"{options.mem_gb}G" if options.mem_gb else None,
        "--account": options.account,
        "--qos": options.qos,
        "--constraint": options.constraint,
        "--nodes": options.nodes if options.nodes > 1 else None,
        "--ntasks": options.ntasks if options.ntasks > 1 else None,
    }
    return [f"{flag}={value}" for flag, value in values.items() if value is not None]
