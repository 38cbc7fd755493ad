"""Makes a launch's parts from the command line: commands, back end, room, limits.

The only module besides `run` that looks at the parsed flags. Invariant: what a back end needs and does
not have is an error here, before any job exists.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sample_factory.runner.backends.base import Backend
from sample_factory.runner.backends.command import (
    BlockingCommandBackend,
    CommandBackend,
    CommandTemplate,
    NgcBackend,
)
from sample_factory.runner.backends.processes import ProcessesBackend
from sample_factory.runner.backends.slurm import SlurmBackend
from sample_factory.runner.backends.slurm_scripts import SlurmOptions
from sample_factory.runner.backends.tmux import TmuxBackend
from sample_factory.runner.commands import JobCommands
from sample_factory.runner.containers import Container
from sample_factory.runner.durations import Caliber, find_caliber, parse_duration
from sample_factory.runner.engine import Limits
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.jobs import Job
from sample_factory.runner.placement import Placement, visible_gpus
from sample_factory.runner.run_files import RunFiles

_SUBMITTING = ("slurm", "ngc", "command")


def waits(args: argparse.Namespace) -> bool:
    """Whether the launcher stays until jobs have ended; schedulers do without it."""
    return bool(args.wait) if args.wait is not None else args.runner not in _SUBMITTING


def make_limits(args: argparse.Namespace) -> Limits:
    """What the engine may do."""
    return Limits(
        pause_between=args.pause_between,
        max_retries=args.max_retries,
        max_requeues=args.max_requeues,
        stop_on_failure=args.on_failure == "stop",
        wait=waits(args),
    )


def make_placement(args: argparse.Namespace) -> Placement:
    """How much room this machine has."""
    per_gpu = args.experiments_per_gpu
    gpus = visible_gpus(args.num_gpus) if per_gpu > 0 else []
    return Placement(args.max_parallel, gpus, per_gpu)


def make_commands(args: argparse.Namespace, files: RunFiles) -> JobCommands:
    """How commands are run."""
    on_slurm = args.runner == "slurm"
    setup = _setup_lines(args)
    several_tasks = on_slurm and (args.slurm_ntasks > 1 or args.slurm_nodes > 1)
    upgrade = (
        [shlex.join([sys.executable, "-m", "pip", "install", "--upgrade", "wandb"])]
        if args.wandb_upgrade
        else []
    )
    return JobCommands(
        files=files,
        setup=[*setup, *upgrade],
        container=_make_container(args),
        variables=_shared_variables(args),
        # Slurm keeps the time itself.
        time_limit_sec=0 if on_slurm else _time_limit(args),
        margin_sec=args.time_margin,
        grace_sec=args.stop_grace,
        own_python=not (setup or (on_slurm and args.slurm_sbatch_template)),
        prefix=["srun"] if several_tasks else [],
    )


def make_backend(args: argparse.Namespace, commands: JobCommands, jobs: Sequence[Job]) -> Backend:
    """Where jobs run.

    Raises:
        RunnerError: when the place is not there, or a flag it needs is missing.
    """
    if args.runner == "tmux":
        return TmuxBackend(commands, args.tmux_session or _session_name(args, commands.files, jobs))
    if args.runner == "slurm":
        return SlurmBackend(commands, _slurm_options(args, commands.files))
    if args.runner == "ray":
        from sample_factory.runner.backends.ray import RayBackend, RayOptions

        return RayBackend(
            commands, RayOptions(args.ray_address, args.ray_cpus_per_job, args.ray_gpus_per_job)
        )
    if args.runner == "ngc":
        return NgcBackend(
            commands, CommandTemplate.load(args.ngc_job_template, "--ngc_job_template", args.train_dir)
        )
    if args.runner == "command":
        template = CommandTemplate.load(args.command_template, "--command_template", args.train_dir)
        return (
            BlockingCommandBackend(commands, template) if waits(args) else CommandBackend(commands, template)
        )
    if not waits(args):
        raise RunnerError("--runner=processes ends with the launcher; use --runner=tmux for --no-wait.")
    return ProcessesBackend(commands)


def backend_of_attempts(name: str, args: argparse.Namespace, files: RunFiles) -> Backend:
    """A back end that can look after jobs an earlier launcher started, but not start any.

    Whatever has a supervisor on this machine is looked after like a process; Ray's tasks end with their
    launcher.
    """
    commands = JobCommands(files)
    if name == SlurmBackend.name:
        return SlurmBackend(commands, _slurm_options(args, files))
    if name in (CommandBackend.name, NgcBackend.name):
        return CommandBackend(commands, CommandTemplate("", args.train_dir))
    return ProcessesBackend(commands)


def _time_limit(args: argparse.Namespace) -> int:
    return _caliber(args).seconds


def _caliber(args: argparse.Namespace) -> Caliber:
    if not args.caliber:
        return Caliber(parse_duration(args.time))
    return find_caliber(args.caliber, args.calibers)


def _setup_lines(args: argparse.Namespace) -> list[str]:
    lines = [f"module load {shlex.join(args.slurm_modules)}"] if args.slurm_modules else []
    if args.conda_env:
        lines += ['eval "$(conda shell.bash hook)"', f"conda activate {shlex.quote(args.conda_env)}"]
    if args.venv:
        lines.append(f"source {shlex.quote(str(Path(args.venv) / 'bin' / 'activate'))}")
    return [*lines, *args.setup]


def _make_container(args: argparse.Namespace) -> Container | None:
    if not args.docker and not args.container:
        return None
    if not args.docker_image:
        raise RunnerError("--docker needs an image: --docker_image=NAME, or the path of an image file.")
    kind = args.container or ("singularity" if args.runner == "slurm" else "docker")
    return Container(kind, args.docker_image, args.train_dir, args.container_args)


def _shared_variables(args: argparse.Namespace) -> dict[str, str]:
    variables = {
        "WANDB_BASE_URL": args.wandb_base_url,
        "WANDB_API_KEY": args.wandb_api_key,
        "WANDB_ENTITY": args.wandb_entity,
        "WANDB_PROJECT": args.wandb_project,
        "OMP_NUM_THREADS": args.threads_per_job,
        "MKL_NUM_THREADS": args.threads_per_job,
    }
    return {name: str(value) for name, value in variables.items() if value is not None}


def _slurm_options(args: argparse.Namespace, files: RunFiles) -> SlurmOptions:
    template = ""
    if args.slurm_sbatch_template:
        try:
            template = Path(args.slurm_sbatch_template).read_text(encoding="utf-8")
        except OSError as error:
            raise RunnerError(
                f"--slurm_sbatch_template={args.slurm_sbatch_template} can't be read ({error.strerror})."
            ) from error
    return SlurmOptions(
        workdir=Path(args.slurm_workdir) if args.slurm_workdir else files.run_dir / "slurm",
        gpus_per_job=args.slurm_gpus_per_job,
        cpus_per_gpu=args.slurm_cpus_per_gpu,
        partition=args.slurm_partition or _caliber(args).partition,
        template=template,
        array=args.slurm_array,
        array_parallelism=args.slurm_array_parallelism,
        mem_gb=args.slurm_mem_gb,
        account=args.slurm_account,
        qos=args.slurm_qos,
        constraint=args.slurm_constraint,
        nodes=args.slurm_nodes,
        ntasks=args.slurm_ntasks,
        extra=args.slurm_extra,
        requeue=args.slurm_requeue,
        time_limit_sec=_time_limit(args),
        margin_sec=args.time_margin,
        poll_sec=args.slurm_poll,
    )


def _session_name(args: argparse.Namespace, files: RunFiles, jobs: Sequence[Job]) -> str:
    seeds = {job.params["seed"] for job in jobs if "seed" in job.params}
    kind = "sweep" if args.sweep else "fixed"
    number = [f"{len(seeds):02d}seeds"] if seeds else []
    return "-".join([kind, *number, files.run_dir.name])
