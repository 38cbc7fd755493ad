"""One wrapped script from start to end: run it, keep its weights, test and film its policy, write the record.

`commands.wrap_command` parses the flags. The directory is `<out>/<script>/<env>/seed_<n>`; running again
replaces it.

Invariant: however the script ends, there is a run.json that says how, and what it has learned so far is
saved.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.host import all_packages
from sample_factory.benchmark.reporting import reports_to
from sample_factory.benchmark.run_record import (
    ALGO_LABEL_VARIABLE,
    HEARTBEAT_SEC,
    OUTPUT_FILE,
    RUN_FILE,
    RunFacts,
    RunRecord,
    RunStatus,
    eval_result,
    iso_time,
    train_result,
)
from sample_factory.benchmark.wrap.environments import recording, tee_loggers
from sample_factory.benchmark.wrap.output import output_copied_to
from sample_factory.benchmark.wrap.recorder import EPISODES_FILE, REWARDS_FILE, Recorder, as_numbers
from sample_factory.benchmark.wrap.script import Script, as_main_program
from sample_factory.benchmark.wrap.trial import Episodes, Trial, UntestableError
from sample_factory.benchmark.wrap.wandb_mirror import WandbMirror

WEIGHTS = ("model", "policy", "agent", "actor", "critic")
PACKAGES_FILE = "packages.txt"
_LAST_EPISODES = 100


@dataclass(frozen=True)
class WrapOptions:
    """What to run and what to do afterwards; `arguments` are the script's own."""

    script: Path
    env: str
    seed: int = 42
    out: Path = Path("train_dir/bench")
    arguments: tuple[str, ...] = ()
    test_episodes: int = 25
    videos: int = 5
    timeout_sec: float = 0.0
    wandb_project: str | None = None
    name: str | None = None

    @property
    def directory(self) -> Path:
        """Of the run."""
        env = re.sub(r"[^\w.-]", "-", self.env).lstrip(".")
        return self.out / self.script.stem / env / f"seed_{self.seed}"


@dataclass(frozen=True)
class Outcome:
    """How a script ended."""

    status: RunStatus
    exit_code: int
    returned: Any = None
    trace: str = ""


class _StopScript(BaseException):
    """A time limit or a signal ends the script; no `except Exception` of a script may catch it."""

    def __init__(self, status: RunStatus, exit_code: ExitCode) -> None:
        super().__init__(status.value)
        self.outcome = Outcome(status, int(exit_code))


def wrap(options: WrapOptions) -> int:
    """Runs a script and records it; the exit code.

    Raises:
        BenchmarkError: the script can't be wrapped.
    """
    script = Script(options.script)
    directory = _fresh_directory(options)
    config = {
        "script": str(options.script),
        "env": options.env,
        "seed": options.seed,
        "arguments": list(options.arguments),
    }
    mirror = (
        WandbMirror(options.wandb_project, options.script, config, directory)
        if options.wandb_project
        else None
    )
    facts = RunFacts(
        command=os.environ.get(ALGO_LABEL_VARIABLE) or options.script.stem,
        name=options.name or f"{options.script.stem}_{options.env}_{options.seed}",
        mainfile=str(options.script),
        seed=options.seed,
        params={"env": options.env, "seed": options.seed},
        argv=sys.argv,
    )
    record = RunRecord.begin(directory, config, facts)
    recorder = Recorder(directory, mirror)
    outcome = _Wrapping(options, script, record, recorder, mirror).run()
    if mirror is not None:
        mirror.finish(outcome.exit_code)
    return outcome.exit_code


class _Wrapping:
    """The pieces of one wrapped run, together."""

    def __init__(
        self,
        options: WrapOptions,
        script: Script,
        record: RunRecord,
        recorder: Recorder,
        mirror: WandbMirror | None,
    ) -> None:
        self._options = options
        self._script = script
        self._record = record
        self._recorder = recorder
        self._mirror = mirror
        self._started = time.monotonic()

    def run(self) -> Outcome:
        """Runs the script, then everything that comes after it."""
        header = f"=== {iso_time(time.time())}: {self._options.script} ==="
        with output_copied_to(self._record.directory / OUTPUT_FILE, header), recording(self._recorder):
            with as_main_program(self._options.script, list(self._options.arguments)), self._heartbeat():
                outcome = self._run_script()
            self._update()
            self._save_weights()
            tested = self._test() if outcome.status is RunStatus.COMPLETED else None
            self._recorder.close()
        for name in (EPISODES_FILE, REWARDS_FILE, PACKAGES_FILE, self._options.script.name):
            self._record.add_artifact(self._record.directory / name)
        result = self._result(outcome, tested)
        self._record.finish(outcome.status, outcome.exit_code, result=result, fail_trace=outcome.trace)
        _say(f"{outcome.status}: {self._record.directory}")
        return outcome

    def _run_script(self) -> Outcome:
        """Loads and calls the script; turns whatever it raises into an outcome."""
        with ExitStack() as around:
            around.enter_context(reports_to(self._recorder.log))
            around.enter_context(_stops(self._options.timeout_sec))
            try:
                self._script.load(self._options.seed)
                around.enter_context(tee_loggers(self._script.namespace(), self._recorder))
                self._started = time.monotonic()
                returned = self._script.run(self._options.env)
                return Outcome(RunStatus.COMPLETED, int(ExitCode.OK), returned)
            except _StopScript as stop:
                return stop.outcome
            except KeyboardInterrupt:
                return Outcome(RunStatus.INTERRUPTED, int(ExitCode.INTERRUPTED))
            except SystemExit as leaving:
                return self._left(leaving)
            except BaseException as error:  # noqa: BLE001 - a script may raise anything; it is in the record
                return self._failed(error)

    def _left(self, leaving: SystemExit) -> Outcome:
        if leaving.code in (None, 0):
            return Outcome(RunStatus.COMPLETED, int(ExitCode.OK))
        return self._failed(leaving)

    def _failed(self, error: BaseException) -> Outcome:
        frames = error.__traceback__
        # Our own frames above the script's say nothing about what went wrong in it.
        while frames is not None and frames.tb_frame.f_code.co_filename != str(self._options.script):
            frames = frames.tb_next
        trace = "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))
        sys.stderr.write(trace)
        return Outcome(RunStatus.FAILED, int(ExitCode.RUN_FAILED), trace=trace)

    def _save_weights(self) -> None:
        variables = self._script.variables()
        for name in WEIGHTS:
            state_dict = getattr(variables.get(name), "state_dict", None)
            if not callable(state_dict):
                continue
            import torch

            path = self._record.directory / "weights" / f"{name}.pth"
            path.parent.mkdir(exist_ok=True)
            torch.save(state_dict(), path)
            self._record.add_artifact(path)

    def _test(self) -> Episodes | None:
        """Test episodes and films; a script that can't be tested is told why."""
        try:
            with self._recorder.paused():
                trial = Trial(self._script.variables(), self._options.env)
                tested = trial.play(self._options.test_episodes, self._on_test_episode)
        except UntestableError as reason:
            _say(f"no test episodes: {reason}")
            return None
        except Exception as error:  # noqa: BLE001 - the script's code may raise anything; training is done
            _say(f"no test episodes: {type(error).__name__}: {error}")
            return None
        self._film(trial)
        return tested

    def _film(self, trial: Trial) -> None:
        try:
            with self._recorder.paused():
                for path in trial.film(self._record.directory / "videos", self._options.videos):
                    self._record.add_artifact(path)
        except UntestableError as reason:
            _say(f"no videos: {reason}")
        except Exception as error:  # noqa: BLE001 - drawing depends on the environment and the machine
            _say(f"no videos: {type(error).__name__}: {error}")

    def _on_test_episode(self, number: int, total: float) -> None:
        if self._mirror is not None:
            self._mirror("test_episode", number, {"test_time_rewards": total})

    def _result(self, outcome: Outcome, tested: Episodes | None) -> dict[str, Any] | None:
        result: dict[str, Any] | None = None
        if tested is not None and tested.returns:
            result = eval_result(tested.returns, tested.lengths)
        elif self._recorder.episodes:
            rewards = [episode.reward for episode in self._recorder.episodes[-_LAST_EPISODES:]]
            result = train_result(
                float(np.mean(rewards)), len(rewards), low=float(min(rewards)), high=float(max(rewards))
            )
        numbers = _returned_numbers(outcome.returned)
        reported = self._recorder.last_values
        extra = {"returned": numbers} if numbers else {}
        extra |= {"reported": dict(reported)} if reported else {}
        return {**(result or {}), **extra} if result or extra else None

    def _update(self) -> None:
        seconds = time.monotonic() - self._started
        steps = self._recorder.env_steps
        self._record.update(env_steps=steps, train_seconds=seconds, fps=steps / seconds if steps else None)

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Keeps the record alive while the script has the main thread."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT_SEC):
                self._update()

        thread = threading.Thread(target=beat, name="run record", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def _stops(timeout_sec: float) -> Iterator[None]:
    """Ends the script by an exception when its time is up, or when a launcher asks it to leave."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: Any) -> None:
        if number == signal.SIGTERM:
            raise _StopScript(RunStatus.INTERRUPTED, ExitCode.INTERRUPTED)
        raise _StopScript(RunStatus.TIMEOUT, ExitCode.TIME_LIMIT)

    numbers = (signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1)
    previous = {number: signal.signal(number, stop) for number in numbers}
    signal.setitimer(signal.ITIMER_REAL, timeout_sec)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _fresh_directory(options: WrapOptions) -> Path:
    directory = options.directory
    if directory.exists():
        # Only an earlier run goes: a wrong --bench_out must not cost anybody their files.
        if not (directory / RUN_FILE).exists() and any(directory.iterdir()):
            raise BenchmarkError(f"{directory} is not empty and holds no run; choose another --bench_out.")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    shutil.copyfile(options.script, directory / options.script.name)
    (directory / PACKAGES_FILE).write_text("\n".join(all_packages()) + "\n", encoding="utf-8")
    return directory


def _returned_numbers(returned: Any) -> dict[str, float]:
    """Numbers in what `main` returned: a dictionary, or an object with one called `result`."""
    content = returned if isinstance(returned, Mapping) else getattr(returned, "result", None)
    return as_numbers(content) if isinstance(content, Mapping) else {}


def _say(text: str) -> None:
    sys.stderr.write(f"benchmark: {text}\n")
