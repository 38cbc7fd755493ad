"""One launch from beginning to end: plan, lock, adopt, run, sum up.

`run.main` calls it for the command line, and `run_processes.run` and its siblings for v1's Python
interface. Invariant: of two launchers of the same run one gets an error, and the other the manifest.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

from sample_factory.processes.directory_lock import DirectoryLock
from sample_factory.runner import choose
from sample_factory.runner.backends.base import Backend
from sample_factory.runner.backends.print_only import print_commands
from sample_factory.runner.backends.tmux import TmuxBackend
from sample_factory.runner.commands import JobCommands, Launch
from sample_factory.runner.control import refreshed
from sample_factory.runner.display import open_display, summary
from sample_factory.runner.engine import Engine, StopRequest, exit_code_of
from sample_factory.runner.errors import ExitCode, RunnerError
from sample_factory.runner.jobs import LONG_NAME, Job, long_names, plan_jobs
from sample_factory.runner.manifest import Manifest
from sample_factory.runner.resume import Selection, open_records, select
from sample_factory.runner.run_description import RunDescription
from sample_factory.runner.run_files import RunFiles
from sample_factory.runner.secrets import redacted, stripped

_STOPS = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.REQUEUE,
    signal.SIGHUP: ExitCode.REQUEUE,
}


def launch(
    description: RunDescription, args: argparse.Namespace, argv: Sequence[str] = (), notes: Sequence[str] = ()
) -> ExitCode:
    """Run a description.

    Args:
        description: what to run.
        args: the flags, from `flags.runner_argparser`.
        argv: the command line they come from.
        notes: what a user should be told first.
    """
    description.experiment_suffix = args.experiment_suffix
    printing = args.dry_run or args.runner == "print"
    jobs = plan_jobs(description, args.train_dir, makedirs=not printing)
    files = RunFiles(Path(args.train_dir) / description.run_name)
    commands = choose.make_commands(args, files)
    if printing:
        print_commands(jobs, commands, sys.stdout)
        return ExitCode.OK
    files.create()
    if _moves_into_tmux(args):
        return _move_into_tmux(args, argv, commands, jobs)
    with (
        DirectoryLock(files.run_dir, "--run_name"),
        closing(choose.make_backend(args, commands, jobs)) as backend,
    ):
        if _only_prepares(args):
            return _prepare(jobs, commands, backend)
        return _run(_Launcher(args, argv, jobs, commands, backend), notes)


class _Launcher:
    """What belongs to one launch."""

    def __init__(
        self,
        args: argparse.Namespace,
        argv: Sequence[str],
        jobs: Sequence[Job],
        commands: JobCommands,
        backend: Backend,
    ):
        self.args = args
        self.jobs = jobs
        self.commands = commands
        self.backend = backend
        self.files = commands.files
        self.manifest = open_manifest(self.files, args, argv, backend)
        self.selection = select(self.manifest, jobs, args.resume)


def open_manifest(
    files: RunFiles, args: argparse.Namespace, argv: Sequence[str], backend: Backend
) -> Manifest:
    """The record of earlier launches, brought up to date; the caller holds the lock.

    Raises:
        RunnerError: when jobs still run in another place.
    """
    if files.manifest.exists():
        manifest = refreshed(files, args)
    else:
        manifest = Manifest.create(files.manifest, redacted(argv))
    elsewhere = [
        record
        for record in open_records(manifest.records.values())
        if record.last_attempt.backend != backend.name
    ]
    if elsewhere:
        where = elsewhere[0].last_attempt.backend.removesuffix("_wait")
        raise RunnerError(
            f"{len(elsewhere)} jobs still run on {where}; go on with --runner={where}, or --cancel them."
        )
    return manifest


def _run(launcher: _Launcher, notes: Sequence[str]) -> ExitCode:
    args, files, selection = launcher.args, launcher.files, launcher.selection
    launcher.manifest.save()
    _write_commands(files, launcher.jobs, launcher.commands)
    running = [*selection.to_run, *selection.adopted]
    with open_display() as display:
        for note in [*notes, *_announcement(launcher.jobs, selection)]:
            display.note(note)
        engine = Engine(
            launcher.manifest,
            running,
            launcher.backend,
            choose.make_placement(args),
            choose.make_limits(args),
            display,
        )
        with stop_on_signals(engine.stop_request):
            engine.run()
    everything = [launcher.manifest.records[job.id] for job in launcher.jobs]
    hints = launcher.backend.hints() if open_records(everything) else []
    for line in [*summary(everything), *hints]:
        sys.stderr.write(line + "\n")
    if args.clear and not open_records(engine.records):
        files.clear_launch_files()
    return exit_code_of(engine.records, engine.stop_request)


def _announcement(jobs: Sequence[Job], selection: Selection) -> list[str]:
    """What is going to happen, in numbers."""
    done, to_run, adopted = len(selection.done), len(selection.to_run), len(selection.adopted)
    parts = [f"{done} done", *([f"{adopted} running already"] if adopted else []), f"{to_run} to run"]
    lines = [f"{_factors(jobs)}{len(jobs)} experiments ({', '.join(parts)})"]
    too_long = long_names(list(jobs))
    if too_long:
        lines.append(f"{len(too_long)} names are longer than {LONG_NAME} characters, e.g. {too_long[0]}")
    return lines


def _factors(jobs: Sequence[Job]) -> str:
    """`6 envs x 10 seeds = `, where that is how the number of jobs comes about."""
    envs = {str(job.params.get("env")) for job in jobs}
    seeds = {str(job.params.get("seed")) for job in jobs}
    trials, rest = divmod(len(jobs), len(envs) * len(seeds))
    if rest or len(envs) * len(seeds) == 1:
        return ""
    names = ((len(envs), "env"), (len(seeds), "seed"), (trials, "trial"))
    return " x ".join(f"{number} {name}{'s' if number > 1 else ''}" for number, name in names) + " = "


def _write_commands(files: RunFiles, jobs: Sequence[Job], commands: JobCommands) -> None:
    files.commands.write_text("".join(f"{commands.printed(job)}\n" for job in jobs), encoding="utf-8")


def _only_prepares(args: argparse.Namespace) -> bool:
    print_only = {"slurm": args.slurm_print_only, "ngc": args.ngc_print_only}
    return not args.deploy_now or print_only.get(args.runner, False)


def _prepare(jobs: Sequence[Job], commands: JobCommands, backend: Backend) -> ExitCode:
    """Write files and print the commands that start the jobs; the manifest does not change."""
    _write_commands(commands.files, jobs, commands)
    lines = backend.prepare([Launch(job, attempt=1) for job in jobs])
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return ExitCode.OK


def _moves_into_tmux(args: argparse.Namespace) -> bool:
    return args.runner == "tmux" and not choose.waits(args) and args.deploy_now


def _move_into_tmux(
    args: argparse.Namespace, argv: Sequence[str], commands: JobCommands, jobs: Sequence[Job]
) -> ExitCode:
    """Start this launcher again inside the session, where it waits, and leave."""
    backend = choose.make_backend(args, commands, jobs)
    if not isinstance(backend, TmuxBackend) or not argv:
        raise RunnerError("--no-wait with tmux works from the command line only.")
    command = [sys.executable, "-m", "sample_factory.runner.run", *stripped(argv), "--wait"]
    backend.run_inside(command, commands.variables)
    sys.stderr.write("".join(f"{line}\n" for line in backend.hints()))
    return ExitCode.OK


@contextmanager
def stop_on_signals(stop: StopRequest) -> Iterator[None]:
    """Ctrl+C, and what systems send to programs that should end, become requests to the engine."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        stop.request(_STOPS[signal.Signals(number)])

    # `nohup` ignores SIGHUP, and that must stay so.
    caught = [number for number in _STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in caught}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
