"""The session's view of its own progress: statistics, the console, the summaries and the verdict.

Fed with the components' reports and the board; writes nothing but logs and summaries.
"""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sample_factory.algorithms.appo.board import Activity, Board, Lag
from sample_factory.algorithms.appo.league import League
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.algorithms.appo.population import Population
from sample_factory.algorithms.appo.verdict import Verdict, judge
from sample_factory.benchmark.run_record import RunRecord, train_result
from sample_factory.config.config import Config
from sample_factory.config.redaction import without_secrets
from sample_factory.envs.extra_summaries import ExtraSummaries
from sample_factory.monitoring.console import ProgressDisplay, SessionStatus, collected_line
from sample_factory.monitoring.reports import ComponentReport, EpisodeReport, EvaluationReport, TrainReport
from sample_factory.monitoring.statistics import EpisodeStatistics, FpsMeter
from sample_factory.monitoring.summaries import Summaries, episodic_summary_due
from sample_factory.monitoring.wandb_run import WandbRun, WandbSettings

log = logging.getLogger("sample_factory")

FPS_RECORD_SEC = 1.0
VERDICT_SEC = 10.0
VERDICT_LINE_SEC = 60.0
POPULATION_SEC = 300.0


class Progress:
    """Everything that is counted, shown and written about a session."""

    def __init__(
        self,
        cfg: Config,
        plan: Plan,
        board: Board,
        directory: Path,
        extra: ExtraSummaries,
        league: League | None = None,
    ):
        self._cfg = cfg
        self._league = league
        self._plan = plan
        self._board = board
        self._extra = extra
        self._started = time.monotonic()
        self.episodes = EpisodeStatistics(cfg.stats_avg)
        self._fps = FpsMeter()
        wandb_run = start_wandb(cfg, directory) if cfg.with_wandb else None
        self._summaries = Summaries(
            directory, plan.num_policies, cfg.flush_summaries_interval, also=wandb_run
        )
        self._display = ProgressDisplay(cfg.experiment, cfg.progress)
        self._first_env_steps: np.ndarray | None = None
        self._first_samples = np.zeros(plan.num_policies, np.int64)
        self._learning_since = self._started
        self._last_record = self._last_summary = self._started
        self._last_verdict = self._started
        # The first one soon: whoever watches from outside reads it in the log.
        self._next_verdict_line = self._started + VERDICT_SEC
        self._last_population = -math.inf
        self._judged_seconds = self._minute_seconds = self._reported_seconds = board.seconds.copy()
        self._session_seconds = board.seconds.copy()
        self._verdict: Verdict | None = None

    @property
    def draws_on_screen(self) -> bool:
        """Whether a live display owns the terminal."""
        return self._display.live

    @property
    def elapsed_sec(self) -> float:
        """Seconds since the session started."""
        return time.monotonic() - self._started

    def learners_are_up(self) -> None:
        """Takes the counters that checkpoints brought as the zero of this session."""
        self._first_env_steps = self._board.env_steps.copy()
        self._first_samples = self._board.samples.copy()
        self._fps = FpsMeter()  # what a checkpoint brought is not speed
        self._learning_since = time.monotonic()
        self._judged_seconds = self._board.seconds.copy()
        self._minute_seconds = self._session_seconds = self._judged_seconds  # starting up is not judged

    def frames_this_session(self) -> int:
        """Frames consumed by all learners since they came up."""
        if self._first_env_steps is None:
            return 0
        return int((self._board.env_steps - self._first_env_steps).sum())

    def samples_this_session(self) -> int:
        """Steps consumed by all learners since they came up."""
        return (
            int((self._board.samples - self._first_samples).sum()) if self._first_env_steps is not None else 0
        )

    def every_policy_has_more_than(self, env_steps: int) -> bool:
        """Whether all policies have consumed more frames than this, earlier sessions included."""
        return bool((self._board.env_steps > env_steps).all())

    def note_in(self, record: RunRecord) -> None:
        """Notes in the run's record how far the session has come."""
        seconds = max(time.monotonic() - self._learning_since, 1e-9)
        record.update(
            env_steps=int(self._board.env_steps.sum()),
            train_seconds=self.elapsed_sec,
            fps=self.frames_this_session() / seconds,
        )

    def note_activities_in(self, record: RunRecord) -> None:
        """Notes in the run's record what every component has spent its time on."""
        record.content["activity_sec"] = {
            name: {activity.name.lower(): float(row[activity]) for activity in Activity}
            for name, row in zip(self._plan.component_names(), self._board.seconds, strict=True)
        }

    def result(self) -> dict[str, Any] | None:
        """The latest episodes of policy 0, as the run's record keeps them."""
        window = self.episodes.summary(0, "true_reward")
        if window is None:
            return None
        return train_result(window.mean, window.count, low=window.min, high=window.max)

    def take(self, report: Any) -> None:
        """Takes one report of a component."""
        if isinstance(report, list):
            for entry in report:
                if isinstance(entry, EpisodeReport):
                    self._take_episode(entry)
            if self._league is not None:
                self._league.take(report)
        elif isinstance(report, TrainReport):
            self._summaries.write_train(report)
        elif isinstance(report, EvaluationReport):
            self._take_evaluation(report)

    def _take_episode(self, episode: EpisodeReport) -> None:
        self.episodes.add(episode.policy_id, episode)
        self._extra.on_episode(episode.policy_id, episode.extra)

    def _take_evaluation(self, report: EvaluationReport) -> None:
        scalars = {f"eval/{name}": value for name, value in report.scalars.items()}
        self._summaries.write(report.policy_id, report.env_steps, scalars)
        log.info(
            "Evaluation of policy %d at version %d, %d frames: reward %.3f over %d episodes.",
            report.policy_id,
            report.policy_version,
            report.env_steps,
            report.scalars["reward"],
            report.scalars["episodes"],
        )

    def update(self) -> None:
        """Shows and writes whatever is due; call it as often as you like."""
        now = time.monotonic()
        if now - self._last_record >= FPS_RECORD_SEC:
            self._last_record = now
            self._fps.record(self._board.env_steps.tolist(), self._board.samples.tolist())
            self._note_best_metric()
            self._display.update(self._status())
        if episodic_summary_due(self._cfg.experiment_summaries_interval, now - self._last_summary):
            self._last_summary = now
            self._write_summaries()
        if now - self._last_verdict >= VERDICT_SEC:
            self._last_verdict = now
            self._verdict = self._judge(self._judged_seconds) or self._verdict
            self._judged_seconds = self._board.seconds.copy()
        if now >= self._next_verdict_line:
            self._next_verdict_line = now + VERDICT_LINE_SEC
            self._log_verdict(self._minute_seconds)
            self._minute_seconds = self._board.seconds.copy()

    def objectives(self, name: str) -> list[float | None]:
        """What each policy is ranked by in a population; None where it is not known yet."""
        found = []
        for policy_id in range(self._plan.num_policies):
            value = self._extra.objectives(policy_id).get(name)
            found.append(value if value is not None else self.episodes.mean(policy_id, name))
        return found

    def write_population(self, population: Population) -> None:
        """Writes every policy's hyper-parameters now and then."""
        now = time.monotonic()
        if now - self._last_population < POPULATION_SEC:
            return
        self._last_population = now
        for policy_id, env_steps in enumerate(self._board.env_steps.tolist()):
            self._summaries.write(policy_id, env_steps, population.scalars(policy_id))

    def _note_best_metric(self) -> None:
        """Tells the learners how good their policies are, once enough episodes say so.

        Where there are evaluations, these decide which checkpoint is best, and the evaluator saves it.
        """
        if self._cfg.get("eval_every_env_steps"):
            return
        for policy_id in range(self._plan.num_policies):
            window = self.episodes.summary(policy_id, self._cfg.save_best_metric)
            if window is not None and window.count >= self._cfg.stats_avg:
                self._board.best_metric[policy_id] = window.mean

    def _status(self) -> SessionStatus:
        lag = self._board.lag[0]
        known = lag[Lag.MIN] >= 0
        return SessionStatus(
            env_steps=self._board.env_steps.tolist(),
            target_env_steps=self._cfg.train_for_env_steps,
            fps=self._fps.fps(),
            samples=self.samples_this_session(),
            throughput=self._fps.throughput(),
            lag=(lag[Lag.MIN], lag[Lag.AVG], lag[Lag.MAX]) if known else None,
            rewards=[self.episodes.mean(p, "reward") for p in range(self._plan.num_policies)],
            elapsed_sec=self.elapsed_sec,
            verdict=self._verdict.sentence if self._verdict is not None else "",
        )

    def _write_summaries(self) -> None:
        env_steps = self._board.env_steps.tolist()
        for policy_id in range(self._plan.num_policies):
            self._summaries.write_episodes(policy_id, env_steps[policy_id], self.episodes, self.elapsed_sec)
            self._summaries.write(policy_id, env_steps[policy_id], self._extra.collect(policy_id))
            if self._league is not None:
                self._summaries.write(policy_id, env_steps[policy_id], self._league.scalars(policy_id))
        fps = self._fps.fps()[0]
        if math.isfinite(fps):
            memory_mb = psutil.Process().memory_info().rss / 2**20
            self._summaries.write_speed(env_steps, fps, self._fps.throughput(), memory_mb)
        if self._verdict is not None:
            self._summaries.write(0, env_steps[0], _verdict_scalars(self._verdict))
        self._summaries.write_components(env_steps[0], self._component_reports())

    def _component_reports(self) -> list[ComponentReport]:
        """Seconds of waiting and of work of every component since the last summary, and its memory."""
        seconds = self._board.seconds - self._reported_seconds
        self._reported_seconds = self._board.seconds.copy()
        working = [activity for activity in Activity if activity not in (Activity.WAITING, Activity.OTHER)]
        return [
            ComponentReport(
                name=name,
                timings={"wait": float(row[Activity.WAITING]), "step": float(row[working].sum())},
                memory_mb=float(memory_mb),
            )
            for name, row, memory_mb in zip(
                self._plan.component_names(), seconds, self._board.memory_mb, strict=True
            )
        ]

    def _judge(self, since: np.ndarray) -> Verdict | None:
        """What has limited the speed since the board looked like this; None if nothing has happened."""
        seconds = self._board.seconds - since
        if seconds.sum() <= 0:
            return None
        cfg = self._cfg
        return judge(self._plan.component_names(), seconds, cfg.serial_mode, taking_turns=not cfg.async_rl)

    def _log_verdict(self, since: np.ndarray) -> None:
        verdict = self._judge(since)
        if verdict is not None:
            log.info("%s", verdict.line())

    def close(self) -> None:
        """Writes the last summaries and the closing lines."""
        self._fps.record(self._board.env_steps.tolist(), self._board.samples.tolist())
        self._verdict = self._verdict or self._judge(self._session_seconds)
        self._write_summaries()
        self._display.close()
        self._log_verdict(self._session_seconds)
        frames = {p: int(steps) for p, steps in enumerate(self._board.env_steps)}
        seconds = max(time.monotonic() - self._learning_since, 1e-9)
        log.info("%s", collected_line(frames, self.frames_this_session() / seconds))
        self._summaries.close()


def start_wandb(cfg: Config, directory: Path) -> WandbRun:
    """The run on Weights & Biases that belongs to an experiment."""
    return WandbRun(
        WandbSettings(
            unique_id=cfg.wandb_unique_id,
            name=cfg.experiment,
            entity=cfg.wandb_user,
            project=cfg.wandb_project,
            group=cfg.wandb_group or cfg.env,
            job_type=cfg.wandb_job_type,
            tags=list(cfg.wandb_tags),
            directory=directory,
            config=without_secrets(cfg.to_dict()),
            checkpoints=cfg.wandb_save_checkpoints,
        )
    )


def _verdict_scalars(verdict: Verdict) -> dict[str, float]:
    return {
        "stats/environment_percent": verdict.environment,
        "stats/inference_percent": verdict.inference,
        "stats/learner_percent": verdict.learning,
        "stats/waiting_percent": verdict.waiting,
        "stats/other_percent": verdict.other,
    }
