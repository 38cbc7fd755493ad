"""Jobs of a Slurm cluster: one batch script each, or one array for all.

Slurm belongs to the cluster, so jobs go on without the launcher: their supervisor asks Slurm to requeue
them after exit code 75, and Slurm requeues what it pre-empts. States come from the result files, and from
Slurm for jobs that left none. Invariant: no secret is in a script; `sbatch --export=ALL` hands the
environment over.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sample_factory.runner.backends.base import (
    RUNNING,
    WAITING,
    Observation,
    Phase,
    Started,
    SupervisedBackend,
    Watched,
    ended,
)
from sample_factory.runner.backends.slurm_queue import FINAL_STATES, RUNNING_STATES, SlurmQueue
from sample_factory.runner.backends.slurm_scripts import (
    SlurmOptions,
    array_script,
    batch_script,
    job_id,
    output_file,
    sbatch_command,
)
from sample_factory.runner.backends.slurm_submissions import Submissions
from sample_factory.runner.commands import ALL_GPUS, JobCommands, Launch
from sample_factory.runner.errors import ExitCode, RunnerError
from sample_factory.runner.results import JobResult
from sample_factory.runner.run_files import write_script
from sample_factory.runner.secrets import secret_names

LARGEST_ARRAY = 1000  # what clusters allow unless they say otherwise (MaxArraySize)
_RESULT_POLL_SEC = 2.0  # results are files on a shared disk, one for each job


class SlurmBackend(SupervisedBackend):
    """Submits to Slurm.

    Args:
        commands: what to run.
        options: what the user wants of the cluster.
    """

    name = "slurm"
    outlives_launcher = True

    def __init__(self, commands: JobCommands, options: SlurmOptions):
        super().__init__(commands)
        self._options = options
        self._queue = SlurmQueue(options.poll_sec)
        self._submissions = Submissions(commands.files.run_dir / "slurm" / "submissions")
        self._submitted: list[str] = []
        self.batch_size = LARGEST_ARRAY if options.array else 1
        self.poll_seconds = min(options.poll_sec, _RESULT_POLL_SEC)

    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        """Cancel; Slurm itself kills what does not end in time."""
        ids = [item.attempt.id for item in watched if item.attempt.id]
        if ids:
            subprocess.run(["scancel", *ids], check=False)
            self._queue.forget()

    def log_of(self, job_id: str) -> str:
        """Slurm's own file, whose name has the number that Slurm gives the job."""
        return ""

    def prepare(self, launches: Sequence[Launch]) -> list[str]:
        """Write the scripts, and one that submits them all."""
        size = self.batch_size
        groups = [launches[first : first + size] for first in range(0, len(launches), size)]
        lines = [shlex.join(self._write_scripts(group)) for group in groups]
        write_script(self._options.workdir / "submit.sh", "\n".join(["#!/bin/bash", *lines, ""]))
        return lines

    def hints(self) -> list[str]:
        """v1's two: how to follow the logs and how to cancel everything."""
        if not self._submitted:
            return []
        workdir = self._options.workdir
        return [f"follow with: tail -f {workdir}/*.out", f"cancel with: {workdir}/scancel.sh"]

    def _start(self, launches: Sequence[Launch]) -> list[Started]:
        """Submit; a refusal is the end of these attempts and no reason to stop."""
        if shutil.which("sbatch") is None:
            raise RunnerError("--runner=slurm needs sbatch; run this on a machine of a Slurm cluster.")
        self._queue.forget()
        environment = {**os.environ, **self._environment(launches)}
        with self._submissions.announced(launches, self._options.array) as (token, descriptor):
            command = self._write_scripts(launches, token)
            # In a session of its own, so that Ctrl+C at the launcher does not cut a submission short.
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                start_new_session=True,
                pass_fds=[descriptor],
            )
        submitted = job_id(done.stdout)
        if done.returncode or not submitted:
            reason = (done.stderr.strip().splitlines() or ["no job id"])[-1]
            return [Started(error=f"sbatch refused it: {reason}") for _ in launches]
        self._submitted.append(submitted)
        write_script(self._options.workdir / "scancel.sh", self._cancel_script())
        ids = [f"{submitted}_{task}" for task in range(len(launches))] if self._options.array else [submitted]
        return [Started(id=name, log=output_file(command, name)) for name in ids]

    def _write_scripts(self, launches: Sequence[Launch], token: str = "") -> list[str]:
        """Write what the attempts need; returns the command that submits them."""
        launches = [
            replace(launch, gpu=ALL_GPUS if self._options.gpus_per_job else None) for launch in launches
        ]
        if not self._options.array:
            launch = launches[0]
            script = self._batch_script(launch.job.id)
            self._write_script(launch, script)
            return sbatch_command(self._options, script, launch.job.name, token=token)
        scripts = [self._files.script(launch.job.id) for launch in launches]
        for launch, script in zip(launches, scripts, strict=True):
            self._write_script(launch, script)
        first = launches[0].job
        script = self._batch_script(first.id)
        write_script(script, array_script(scripts))
        name = Path(first.root_dir).parts[0]
        return sbatch_command(self._options, script, name, len(launches), token)

    def _batch_script(self, first_job: str) -> Path:
        return self._options.workdir / f"sbatch_{'array_' if self._options.array else ''}{first_job}.sh"

    def _write_script(self, launch: Launch, script: Path) -> None:
        requeue = ["--slurm_requeue"] if self._options.requeue else []
        command = self._commands.supervised(launch, *requeue)
        lines = self._commands.script_lines(launch, command)
        write_script(script, batch_script(self._options, lines, command, script))

    def _environment(self, launches: Sequence[Launch]) -> dict[str, str]:
        """Variables to submit with; tasks of an array share one environment, so their secrets must agree."""
        merged: dict[str, str] = {}
        for launch in launches:
            variables: Mapping[str, str] = self._commands.environment(launch)
            for name in secret_names(variables):
                if merged.get(name, variables[name]) != variables[name]:
                    raise RunnerError(
                        f"{name} differs between jobs of one array; use --no-slurm_array for that."
                    )
            merged |= variables
        return merged

    def _cancel_script(self) -> str:
        return "\n".join(["#!/bin/bash", shlex.join(["scancel", *self._submitted]), ""])

    def _is_final(self, result: JobResult) -> bool:
        """Only success speaks for itself: of any other end Slurm may be the cause, and may start it again."""
        return result.ended and result.exit_code == ExitCode.OK

    def _supervised(self, item: Watched, result: JobResult) -> bool:
        """Slurm knows better than the age of a file."""
        return False

    def _find(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        in_flight = [item.job_id for item in watched if not item.attempt.id and not self._recover(item)]
        states = self._queue.states()
        if states is None:
            return {item.job_id: WAITING for item in watched}
        found: dict[str, Observation | None] = {
            item.job_id: self._active(item, states.get(item.attempt.id)) for item in watched
        }
        found |= dict.fromkeys(in_flight, WAITING)
        return {name: observation for name, observation in found.items() if observation is not None}

    def _recover(self, item: Watched) -> bool:
        """Finds the id of an attempt whose launcher died while it submitted; False if nobody knows it yet."""
        submission = self._submissions.of(item.job_id, item.attempt.number)
        if submission is None:
            return True  # it was never submitted
        if not submission.is_over():
            return False
        self._queue.forget()
        if self._queue.states() is None:
            return False
        base = self._queue.id_of(submission.token)
        if base is not None:
            name = submission.slurm_id(base, item.job_id, item.attempt.number)
            kind = "array_" if submission.is_array else ""
            script = f"sbatch_{kind}{submission.jobs[0][0]}.sh"
            item.attempt.id = name
            item.attempt.log = f"{self._options.workdir}/{script}-slurm-{name}.out"
        return True

    def _active(self, item: Watched, state: str | None) -> Observation | None:
        if state is None or state in FINAL_STATES:
            return None
        result = self._result(item)
        started = result is not None and result.exit_code is None
        return RUNNING if started or state in RUNNING_STATES else WAITING

    def _settle(self, item: Watched, result: JobResult | None) -> Observation:
        """What Slurm did to a job counts more than its exit code."""
        state = (self._queue.states() or {}).get(item.attempt.id)
        if state is None and item.attempt.id:
            state = self._queue.accounted_state(item.attempt.id)
        caused_by_slurm = state is not None and state not in ("COMPLETED", "FAILED", "OUT_OF_MEMORY")
        if result is not None and result.ended and not caused_by_slurm:
            return ended(result)
        return _last_word(state)


def _last_word(state: str | None) -> Observation:
    """What a final state of Slurm means."""
    if state == "COMPLETED":
        return Observation(Phase.ENDED, exit_code=ExitCode.OK)
    if state in ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL"):
        return Observation(Phase.ENDED, exit_code=ExitCode.REQUEUE)
    says = f"Slurm says {state}" if state else "Slurm does not know it any more, and it left no result"
    return Observation(
        Phase.ENDED,
        timed_out=state == "TIMEOUT",
        stopped=state is not None and state.startswith("CANCELLED"),
        detail=says,
    )
