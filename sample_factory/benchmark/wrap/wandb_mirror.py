"""A copy of a wrapped run on Weights & Biases; the local record is the original.

Every kind of value has an axis of its own (environment steps, episodes, test episodes), because W&B drops
whatever is logged at a step behind the newest one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_factory.benchmark.errors import BenchmarkError

AXES = {"env_step": "*", "episode": "episode_*", "test_episode": "test_*"}
MISSING_WANDB = "--bench_wandb needs wandb: pip install 'sample-factory-rebuilt[wandb]'"


class WandbMirror:
    """One W&B run, named `<script>/<env>` and grouped by script.

    Raises:
        BenchmarkError: wandb is not installed.
    """

    def __init__(self, project: str, script: Path, config: Mapping[str, Any], directory: Path) -> None:
        if importlib.util.find_spec("wandb") is None:
            raise BenchmarkError(MISSING_WANDB)
        import wandb

        self._run = wandb.init(
            project=project,
            name=f"{script.stem}/{config['env']}",
            group=script.stem,
            config=dict(config),
            dir=str(directory),
        )
        for axis, pattern in AXES.items():
            self._run.define_metric(axis)
            self._run.define_metric(pattern, step_metric=axis)

    def __call__(self, axis: str, position: int, values: Mapping[str, float]) -> None:
        """Logs values at a position of one of the `AXES`."""
        self._run.log({axis: position, **values})

    def finish(self, exit_code: int) -> None:
        """Ends the W&B run."""
        self._run.finish(exit_code=exit_code)
