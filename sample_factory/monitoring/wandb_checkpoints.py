"""Which checkpoints go to Weights & Biases, as `--wandb_save_checkpoints` says.

`wandb_run` asks it now and then, in its own thread. Files are copied beside the run's own before they are
handed over: training deletes old checkpoints, and an upload may come later, or only with `wandb sync`.

Invariant: a checkpoint is handed over once, whole, and together with the cfg.json it needs.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sample_factory.config.experiment_files import CFG_FILE

NONE, BEST, LAST, ALL = "none", "best", "last", "all"
_PATTERNS = {
    NONE: (),
    BEST: ("checkpoint_p*/best_*.pth",),
    LAST: ("checkpoint_p*/checkpoint_*.pth",),
    ALL: ("checkpoint_p*/best_*.pth", "checkpoint_p*/checkpoint_*.pth"),
}


class CheckpointUploads:
    """Remembers what has been handed over."""

    def __init__(self, directory: Path, kind: str) -> None:
        self._directory = directory
        self._kind = kind
        self._seen: set[Path] = set()

    def waiting(self, *, is_end: bool) -> list[Path]:
        """The checkpoints to hand over now, oldest first; the last ones are known at the end only."""
        if self._kind == LAST and not is_end:
            return []
        found = [path for pattern in _PATTERNS[self._kind] for path in sorted(self._directory.glob(pattern))]
        if self._kind == LAST:
            found = list({path.parent: path for path in found}.values())
        return [path for path in found if path not in self._seen]

    def hand_over(self, run: Any, *, is_end: bool) -> None:
        """Gives waiting checkpoints to a run; one that training has just deleted is left out."""
        waiting = self.waiting(is_end=is_end)
        if waiting and not self._seen:
            self._save(run, self._directory / CFG_FILE)
        for path in waiting:
            self._seen.add(path)
            self._save(run, path)

    def _save(self, run: Any, path: Path) -> None:
        copy = Path(run.dir) / path.relative_to(self._directory)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, copy)
        except FileNotFoundError:
            return
        run.save(str(copy), base_path=run.dir, policy="now")
