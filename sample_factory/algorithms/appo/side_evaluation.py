"""The session's side of evaluation during training: when it is due, and the process that does it.

The evaluator runs at the lowest priority in a process of its own with a supervisor of its own, so that
neither its slowness nor its death concerns training; in serial mode it runs in turn with everything else.

Invariant: training never waits for it, it is restarted a limited number of times, and `stop` leaves no
process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.config.config import Config
from sample_factory.monitoring.log import init_worker_logging
from sample_factory.monitoring.reports import EvaluationReport
from sample_factory.processes.channels import LocalReporter
from sample_factory.processes.supervision import Death, Supervisor
from sample_factory.processes.worker import WorkerContext, WorkerSpec

if TYPE_CHECKING:  # the main process of a parallel session runs without torch
    from sample_factory.algorithms.appo.evaluator import Evaluator

log = logging.getLogger("sample_factory")

NAME = "evaluator"
LOWEST_PRIORITY = 19
SERIAL_TURN_SEC = 3600.0


@dataclass(frozen=True)
class EvaluatorBuilder:
    """Builds the evaluator where it runs."""

    cfg: Config
    directory: Path
    user_code: UserCode
    console: bool

    def __call__(self, context: WorkerContext) -> Evaluator:
        """See `Builder`."""
        import torch

        from sample_factory.algorithms.appo.evaluator import Evaluator

        torch.set_num_threads(1)
        self.user_code.restore()
        init_worker_logging(self.directory, self.cfg.log_to_file, console=self.console)
        return Evaluator(self.cfg, self.directory, context.reporter, rest=context.rest)


class SideEvaluation:
    """Asks learners for checkpoints when evaluations are due, and watches who plays them.

    Args:
        cfg: of the session.
        board: where learners are asked to save.
        directory: of the experiment.
        console: whether workers may write to the terminal.
    """

    def __init__(self, cfg: Config, board: Board, directory: Path, *, console: bool = True) -> None:
        self._cfg = cfg
        self._board = board
        self._builder = EvaluatorBuilder(cfg, directory, UserCode.capture(), console)
        self._due: list[int] | None = None  # frames of each policy's next evaluation
        self._awaited: set[int] = set()  # policies whose last evaluation has not been reported
        self._supervisor: Supervisor | None = None
        self._local: Evaluator | None = None
        self._reporter = LocalReporter()

    def start(self) -> None:
        """Brings the evaluator to life."""
        cfg = self._cfg
        if cfg.serial_mode:
            from sample_factory.algorithms.appo.evaluator import Evaluator

            self._local = Evaluator(cfg, self._builder.directory, self._reporter, look_sec=0.0)
            return
        self._supervisor = Supervisor(max_workers=1)
        self._supervisor.start(
            WorkerSpec(
                name=NAME,
                build=self._builder,
                niceness=LOWEST_PRIORITY,
                # It yields to everybody else, so it may be slow without being stuck.
                silence_limit_sec=2.0 * cfg.env_step_timeout_seconds,
                silence_report_sec=float(cfg.env_step_timeout_seconds),
                start_limit_sec=10.0 * cfg.reset_timeout_seconds,
            )
        )

    def poll(self) -> Iterator[Any]:
        """Asks for checkpoints that are due; yields what was measured since the last call. Never waits.

        In serial mode the evaluation itself happens in here.
        """
        self._ask_for_checkpoints()
        for report in self._work():
            if isinstance(report, EvaluationReport):
                self._awaited.discard(report.policy_id)
                yield report

    def stop(self, timeout: float) -> None:
        """Ends the evaluator; safe to call twice."""
        if self._supervisor is not None:
            self._supervisor.stop_all(timeout)
            self._supervisor = None
        if self._local is not None:
            self._local.close()
            self._local = None

    def _ask_for_checkpoints(self) -> None:
        every = self._cfg.eval_every_env_steps
        env_steps = self._board.env_steps.tolist()
        if self._due is None:
            self._due = [(steps // every + 1) * every for steps in env_steps]
        for policy_id, steps in enumerate(env_steps):
            # One at a time: where evaluation is slower than training, fewer checkpoints are evaluated.
            if steps >= self._due[policy_id] and policy_id not in self._awaited:
                self._due[policy_id] = (steps // every + 1) * every
                self._awaited.add(policy_id)
                self._board.save_requests[policy_id] += 1

    def _work(self) -> Iterator[Any]:
        if self._local is not None:
            self._work_here(self._local)
            yield from self._reporter.drain()
        if self._supervisor is not None:
            yield from self._supervisor.reports()
            for death in self._supervisor.check():
                self._handle(death)

    def _work_here(self, evaluator: Evaluator) -> None:
        try:
            while self._awaited and evaluator.work(SERIAL_TURN_SEC):
                pass
        except Exception:  # whatever an environment raises, as in a process of its own
            log.exception("Evaluation failed; training goes on without it.")
            self.stop(0.0)

    def _handle(self, death: Death) -> None:
        self._awaited.clear()
        limit = self._cfg.max_worker_restarts
        if death.is_final or death.deaths > limit:
            log.error(
                "The evaluator died %d times (%s; --max_worker_restarts=%d); training goes on without it. %s",
                death.deaths,
                death.cause,
                limit,
                death.trace,
            )
            self.stop(0.0)
            return
        assert self._supervisor is not None
        delay = self._supervisor.restart(death.name, death.deaths)
        log.warning("The evaluator died (%s) and is replaced in %.1f s. %s", death.cause, delay, death.trace)
