"""Weights & Biases, at arm's length: scalars go into a queue, and a thread of its own does everything else.

The thread imports wandb, starts the run and logs; whatever it runs into is logged once and costs nothing but
the curves on the web. Without a network, or without a key, the run is written offline for a later sync.

Invariant: nothing here waits for wandb except `close`, and that only for a limited time.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sample_factory.monitoring.log import logger
from sample_factory.monitoring.wandb_checkpoints import NONE, CheckpointUploads

INIT_TIMEOUT_SEC = 15.0
CLOSE_TIMEOUT_SEC = 20.0
MAX_QUEUED = 10_000
UPLOAD_PERIOD_SEC = 30.0
_AXIS = "env_steps"


@dataclass(frozen=True)
class WandbSettings:
    """What a run is called and where it goes; `checkpoints` is `--wandb_save_checkpoints`."""

    unique_id: str
    name: str
    entity: str | None
    project: str
    group: str
    job_type: str
    tags: list[str]
    directory: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: str = NONE


def new_unique_id(experiment: str) -> str:
    """An id for a new run; kept in cfg.json, so that a resumed session continues the same run."""
    return f"{experiment}_{datetime.now():%Y%m%d_%H%M%S_%f}"


class WandbRun:
    """A run that is started and fed in the background."""

    def __init__(self, settings: WandbSettings) -> None:
        self._settings = settings
        self._queue: queue.Queue[dict[str, float] | None] = queue.Queue(MAX_QUEUED)
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()

    def log(self, policy_id: int, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Hands scalars over; drops them when the thread is far behind."""
        prefix = f"policy_{policy_id}/" if policy_id else ""
        record = {f"{prefix}{tag}": value for tag, value in scalars.items()}
        record[f"{prefix}{_AXIS}"] = env_steps
        with contextlib.suppress(queue.Full):  # curves with a gap are better than training that waits
            self._queue.put_nowait(record)

    def close(self) -> None:
        """Lets the thread finish the run, for a limited time."""
        try:
            self._queue.put(None, timeout=1.0)
        except queue.Full:
            return
        self._thread.join(CLOSE_TIMEOUT_SEC)
        if self._thread.is_alive():
            logger().warning("Weights & Biases did not finish in time; `wandb sync` uploads what is missing.")

    def _work(self) -> None:
        try:
            run = self._start()
            logger().info("Weights & Biases: %s", run.url or f"offline, in {run.dir}")
            self._feed(run)
            run.finish()
        except Exception as error:  # noqa: BLE001  a service on the web must not cost a training run
            logger().error("Weights & Biases is left out: %s. Training goes on.", error)

    def _feed(self, run: Any) -> None:
        """Passes on records and checkpoints until the session closes."""
        uploads = CheckpointUploads(self._settings.directory, self._settings.checkpoints)
        axes: set[str] = set()
        last_upload = time.monotonic()
        while True:
            try:
                record = self._queue.get(timeout=UPLOAD_PERIOD_SEC)
            except queue.Empty:
                record = {}
            if record is None:
                uploads.hand_over(run, is_end=True)
                return
            if record:
                _define_axis(run, record, axes)
                run.log(record)
            if time.monotonic() - last_upload >= UPLOAD_PERIOD_SEC:
                last_upload = time.monotonic()
                uploads.hand_over(run, is_end=False)

    def _start(self) -> Any:
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise RuntimeError(
                "the package is missing, pip install 'sample-factory-rebuilt[wandb]'"
            ) from error
        try:
            return self._init(wandb, mode=None)
        except wandb.Error as error:
            logger().warning("Weights & Biases is not reachable (%s); the run is written offline.", error)
            return self._init(wandb, mode="offline")

    def _init(self, wandb: Any, mode: str | None) -> Any:
        s = self._settings
        return wandb.init(
            id=s.unique_id,
            name=s.name,
            entity=s.entity,
            project=s.project,
            group=s.group,
            job_type=s.job_type,
            tags=s.tags,
            dir=str(s.directory),
            config=dict(s.config),
            resume="allow",
            mode=mode,
            # Left alone, wandb takes over stdout and stderr, which the live display draws on.
            settings=wandb.Settings(init_timeout=INIT_TIMEOUT_SEC, silent=True, console="off"),
        )


def _define_axis(run: Any, record: Mapping[str, float], defined: set[str]) -> None:
    """Draws a policy's curves over its frames; W&B would count calls of `log`."""
    axis = next((name for name in record if name.endswith(_AXIS)), None)
    if axis is not None and axis not in defined:
        defined.add(axis)
        run.define_metric(axis)
        run.define_metric(f"{axis.removesuffix(_AXIS)}*", step_metric=axis)
