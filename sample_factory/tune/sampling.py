"""Optuna: where a study is stored, how configurations are chosen, when trials are pruned.

The only module that imports Optuna. The study is a journal file: SQLite is unsafe on network disks.

Invariants: whatever moment the tuner is killed at, the next one can open the journal; the random numbers of a
trial depend on the sampler's seed and the trial's number, not on how often the tuner was started.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_factory.runner.errors import RunnerError

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

SAMPLERS = ("tpe", "random", "grid", "gp", "cmaes")
PRUNERS = ("none", "median", "asha", "hyperband", "wilcoxon")
_WILCOXON_P = 0.1
WILCOXON_RUNS = 4  # the smallest p-value of n pairs is 1/2^n, and it has to be below the threshold


class _KernelLock:
    """A lock that ends with the process that holds it; Optuna's own ones outlive a process that is killed."""

    def __init__(self, path: Path):
        self._path = path
        self._descriptor = -1

    def acquire(self) -> bool:
        """Waits for the lock."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Lets others in."""
        os.close(self._descriptor)


def open_study(path: Path, name: str, direction: str) -> Study:
    """The study in a journal, made if it is not there.

    Raises:
        RunnerError: Optuna is not installed, or the file is no journal.
    """
    optuna = _optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(path)
        lock: Any = _KernelLock(path.with_name(f"{path.name}.lock"))
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
        study: Study = optuna.create_study(
            storage=storage, study_name=name, direction=direction, load_if_exists=True
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunnerError(f"--storage={path} can't be used ({error}); choose another file.") from error
    if study.direction.name.lower() != direction:
        raise RunnerError(
            f"the study {name} is there to {study.direction.name.lower()}; use --study_name=NEW."
        )
    return study


def continued(study: Study, trial: FrozenTrial) -> Trial:
    """A trial that another process began."""
    from optuna.trial import Trial

    return Trial(study, trial._trial_id)  # Optuna has no other way to go on with one


def make_sampler(kind: str, seed: int, number: int) -> BaseSampler:
    """The sampler for the trial with this number; `grid` is not Optuna's business."""
    optuna = _optuna()
    own_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    if kind == "gp":
        return optuna.samplers.GPSampler(seed=own_seed)
    if kind == "cmaes":
        if not _has("cmaes"):
            raise RunnerError("--sampler=cmaes needs a package: pip install cmaes.")
        return optuna.samplers.CmaEsSampler(seed=own_seed)
    if kind == "tpe":
        # The liar keeps trials that run side by side from trying the same spot.
        return optuna.samplers.TPESampler(seed=own_seed, constant_liar=True)
    return optuna.samplers.RandomSampler(seed=own_seed)


def make_pruner(kind: str, comparisons: int) -> BasePruner:
    """The pruner; `comparisons` is how many there are in the course of a trial."""
    pruners = _optuna().pruners
    if kind == "median":
        return pruners.MedianPruner(n_startup_trials=5)
    if kind == "asha":
        return pruners.SuccessiveHalvingPruner(min_resource=1)
    if kind == "hyperband":
        return pruners.HyperbandPruner(min_resource=1, max_resource=max(2, comparisons))
    if kind == "wilcoxon":
        return pruners.WilcoxonPruner(p_threshold=_WILCOXON_P)
    return pruners.NopPruner()


def importances(study: Study, names: list[str]) -> dict[str, float]:
    """How much each setting decides whether a trial is among the best, as shares; empty if trials are few.

    By PED-ANOVA (Watanabe et al. 2023). Each setting is judged by the trials that have it.
    """
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.trial import TrialState

    values: dict[str, float] = {}
    for name in names:
        having = [trial for trial in study.get_trials(states=[TrialState.COMPLETE]) if name in trial.params]
        if len({trial.params[name] for trial in having}) > 1 and len(having) >= 4:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that more trials would tell more goes without saying
                values[name] = float(PedAnovaImportanceEvaluator().evaluate(study, params=[name])[name])
    total = sum(values.values())
    if not total or not np.isfinite(total):
        return {}
    return dict(sorted(((name, value / total) for name, value in values.items()), key=lambda pair: -pair[1]))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise RunnerError("tuning needs Optuna: pip install 'sample-factory-rebuilt[tune]'.") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _has(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def _drop_torn_line(path: Path) -> None:
    """Cuts off a line whose writer died; what is appended after it could never be read."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)
