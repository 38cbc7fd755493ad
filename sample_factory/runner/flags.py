"""The launcher's command line: v1's flags and defaults, names of Sample Factory 2 and MiloZero, and ours.

`runner_argparser` is v1's entry; `parse_command_line` also lets the `runner:` section of a `--config`
file set defaults. Invariant: what is typed wins over the file, and the file over the defaults here.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from sample_factory.config.setting import parse_bool
from sample_factory.runner.containers import KINDS
from sample_factory.runner.durations import CALIBERS
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.resume import MODES

RUNNERS = ("processes", "tmux", "slurm", "ngc", "command", "ray", "print")


class _BoolFlag(argparse.Action):
    """`--x`, `--x=True`, `--x=False` and `--no-x`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        try:
            value = True if values is None else parse_bool(str(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        negated = option_string is not None and option_string.startswith("--no-")
        setattr(namespace, self.dest, value is not negated)


def runner_argparser() -> argparse.ArgumentParser:
    """The parser with every flag."""
    parser = argparse.ArgumentParser(
        prog="python -m sample_factory.runner.run",
        description="Launch many experiments and look after them.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_run_args(parser.add_argument_group("what to run"))
    add_description_args(parser.add_argument_group("experiments of a --config file"))
    add_control_args(parser.add_argument_group("how to run it"))
    add_local_args(parser.add_argument_group("this machine (processes, tmux)"))
    add_slurm_args(parser.add_argument_group("slurm"))
    add_ngc_args(parser.add_argument_group("ngc and command templates"))
    add_ray_args(parser.add_argument_group("ray"))
    add_job_args(parser.add_argument_group("around each command"))
    return parser


def parse_command_line(argv: Sequence[str]) -> argparse.Namespace:
    """Parse, with defaults from the file that `--config` names."""
    parser = runner_argparser()
    args = parser.parse_args(argv)
    if args.config is None:
        return args
    from sample_factory.runner.description_files import runner_section

    section = runner_section(args.config)
    unknown = [key for key in section if not hasattr(args, key)]
    if unknown:
        raise RunnerError(f"`runner: {unknown[0]}` is not a flag of the launcher; --help lists them.")
    # As text they go through the flags' own types.
    parser.set_defaults(**{key: _as_typed(value) for key, value in section.items()})
    return parser.parse_args(argv)


def add_run_args(parser: argparse._ActionsContainer) -> None:
    """What to run, and where results go."""
    parser.add_argument("--run", help="importable module or .py file that defines RUN_DESCRIPTION")
    parser.add_argument("--config", help="YAML file with a description")
    parser.add_argument("--run_name", help="name of the run; enough for --status and --cancel")
    parser.add_argument("--train_dir", default="./train_dir", help="where experiments go")
    parser.add_argument(
        "--experiment_suffix", default="", help="appended to the folders of experiment groups"
    )
    parser.add_argument(
        "--runner", "--backend", "--deployment", choices=RUNNERS, default="processes", help="where jobs run"
    )


def add_description_args(parser: argparse._ActionsContainer) -> None:
    """What a file leaves open, under MiloZero's names."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a value of the file"
    )
    parser.add_argument("--env_bundle", help="environments by name, e.g. doom/basic; several with commas")
    _add_bool(parser, "list_bundles", False, "show the bundles and leave")
    parser.add_argument("--envs", nargs="+", help="environments")
    parser.add_argument("--num_seeds", type=int, help="number of seeds")
    parser.add_argument("--start_seed", type=int, default=0, help="the first of them")
    parser.add_argument("--seeds", nargs="+", type=int, help="seeds, one by one")
    parser.add_argument(
        "--axis", action="append", default=[], metavar="KEY=V1,V2", help="values to multiply by"
    )
    parser.add_argument(
        "--num_demos", "--list", nargs="+", type=int, help="numbers of demonstrations to multiply by"
    )
    parser.add_argument("--demo_dir", help="adds --expert_path=DIR/<env>")
    _add_bool(parser, "sweep", None, "draw trials from the lists of the file")
    parser.add_argument("--sweep_mode", choices=("random", "grid"), default="random", help="which trials")
    parser.add_argument("--num_trials", type=int, help="number of trials of a random sweep")
    parser.add_argument("--sweep_seed", type=int, default=0, help="decides the draw")
    parser.add_argument("--num_workers", type=int, help="rollout workers of each experiment")
    parser.add_argument("--prefix", help="put before the names of experiments")
    parser.add_argument(
        "--args_method",
        choices=("minimal", "full", "yaml"),
        default="minimal",
        help="commands hold what differs from defaults, every flag, or the name of a file",
    )


def add_control_args(parser: argparse._ActionsContainer) -> None:
    """Starting, resuming, retrying, stopping."""
    parser.add_argument("--pause_between", type=float, default=10, help="seconds between two starts")
    parser.add_argument(
        "--resume",
        choices=MODES,
        default="missing",
        help="what to run of a run that exists: what is not complete, what failed, everything, or refuse",
    )
    parser.add_argument("--max_retries", type=int, default=0, help="starts again after a failure")
    parser.add_argument(
        "--max_requeues", type=int, default=100, help="starts again after pre-emption (exit code 75)"
    )
    parser.add_argument(
        "--on_failure", choices=("continue", "stop"), default="continue", help="stop: start nothing more"
    )
    _add_bool(
        parser, "wait", None, "stay until all jobs have ended; not the default for slurm, ngc and command"
    )
    parser.add_argument(
        "--time", "--slurm_timeout", default="0", help="limit for one job, e.g. 2h or 1-12:00:00"
    )
    parser.add_argument("--caliber", help=f"limit for one job, by name: {', '.join(CALIBERS)}")
    parser.add_argument("--calibers", help="YAML file with other lengths, and the Slurm partition of each")
    parser.add_argument(
        "--time_margin", type=float, default=120, help="seconds before the limit to save and leave"
    )
    parser.add_argument(
        "--stop_grace", type=float, default=30, help="seconds a job gets to stop before it is killed"
    )
    _add_bool(parser, "dry_run", False, "print the commands, as --runner=print does")
    _add_bool(parser, "deploy_now", True, "start jobs; otherwise only write the files that start them")
    _add_bool(parser, "clear", False, "remove these files in the end")
    _add_bool(parser, "status", False, "show the jobs of a run and leave")
    _add_bool(parser, "cancel", False, "stop the jobs of a run and leave")
    _add_bool(parser, "collect", False, "write the results of a run's jobs to results.csv, and show them")
    _add_bool(parser, "debug", False, "show tracebacks of errors in descriptions")


def add_local_args(parser: argparse._ActionsContainer) -> None:
    """Sharing this machine."""
    parser.add_argument("--max_parallel", type=int, default=4, help="jobs at the same time; 0 is all")
    parser.add_argument("--num_gpus", type=int, default=1, help="GPUs to spread jobs over")
    parser.add_argument(
        "--experiments_per_gpu", type=int, default=-1, help="jobs per GPU; -1 shows all GPUs to all"
    )
    parser.add_argument("--threads_per_job", type=int, help="sets OMP_NUM_THREADS and MKL_NUM_THREADS")
    parser.add_argument("--tmux_session", help="name of the session; made from the run's name if not given")


def add_slurm_args(parser: argparse._ActionsContainer) -> None:
    """Slurm."""
    parser.add_argument("--slurm_gpus_per_job", type=int, default=1, help="GPUs of a job")
    parser.add_argument("--slurm_cpus_per_gpu", type=int, default=14, help="CPUs for each of them")
    _add_bool(parser, "slurm_print_only", False, "write the scripts and print the commands")
    parser.add_argument("--slurm_workdir", help="scripts and logs; <train_dir>/<run name>/slurm if not given")
    parser.add_argument("--slurm_partition", help="partition")
    parser.add_argument("--slurm_sbatch_template", help="file that scripts begin with, or that contains $CMD")
    _add_bool(parser, "slurm_array", False, "submit one array instead of single jobs")
    parser.add_argument(
        "--slurm_array_parallelism", type=int, default=0, help="tasks at the same time; 0 is all"
    )
    parser.add_argument("--slurm_mem_gb", type=int, help="memory of a job")
    parser.add_argument("--slurm_account", help="account")
    parser.add_argument("--slurm_qos", help="quality of service")
    parser.add_argument("--slurm_constraint", help="features of nodes")
    parser.add_argument("--slurm_nodes", type=int, default=1, help="nodes of a job")
    parser.add_argument(
        "--slurm_ntasks", type=int, default=1, help="tasks of a job; more than one start with srun"
    )
    parser.add_argument("--slurm_extra", default="", help="more options of sbatch, in one text")
    parser.add_argument("--slurm_modules", nargs="+", default=[], help="modules to load")
    _add_bool(parser, "slurm_requeue", True, "requeue after pre-emption and at the time limit")
    parser.add_argument("--slurm_poll", type=float, default=10, help="seconds between two questions to Slurm")


def add_ngc_args(parser: argparse._ActionsContainer) -> None:
    """NGC, and any other program."""
    parser.add_argument("--ngc_job_template", help="file with {{ name }} and {{ experiment_cmd }}")
    _add_bool(parser, "ngc_print_only", False, "print the commands")
    parser.add_argument("--command_template", help="the same for --runner=command; also {{ train_dir }}")


def add_ray_args(parser: argparse._ActionsContainer) -> None:
    """Ray."""
    parser.add_argument("--ray_address", default="auto", help="the cluster; auto is the one on this machine")
    parser.add_argument("--ray_cpus_per_job", type=float, default=1, help="CPUs a job asks for")
    parser.add_argument("--ray_gpus_per_job", type=float, default=0, help="GPUs a job asks for")


def add_job_args(parser: argparse._ActionsContainer) -> None:
    """What surrounds commands: environments, containers, Weights & Biases."""
    parser.add_argument("--setup", action="append", default=[], metavar="COMMAND", help="run before each job")
    parser.add_argument("--conda_env", help="conda environment to activate")
    parser.add_argument("--venv", help="virtual environment to activate")
    _add_bool(parser, "docker", False, "run jobs in a container")
    parser.add_argument("--docker_image", help="name of the image, or path of an image file")
    parser.add_argument(
        "--container", choices=KINDS, help="program; docker here, singularity on slurm if not given"
    )
    parser.add_argument("--container_args", default="", help="more arguments for it, in one text")
    parser.add_argument("--wandb_base_url", help="given to jobs as WANDB_BASE_URL")
    parser.add_argument("--wandb_api_key", help="given to jobs as WANDB_API_KEY; better export that variable")
    parser.add_argument("--wandb_entity", help="team or user")
    parser.add_argument("--wandb_project", help="project")
    _add_bool(parser, "wandb_upgrade", False, "upgrade wandb before each job")


def _add_bool(parser: argparse._ActionsContainer, name: str, default: bool | None, text: str) -> None:
    parser.add_argument(f"--{name}", f"--no-{name}", action=_BoolFlag, nargs="?", default=default, help=text)


def _as_typed(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
