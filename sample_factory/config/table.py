"""The settings table, put together.

The parser, validation, docs/settings.md and population-based training all start from here; a new setting is
declared in the `settings_*` module of whoever reads it and shows up everywhere. Invariant: within one table
every name and alias is unique.
"""

from __future__ import annotations

from collections.abc import Iterable

from sample_factory.config import (
    settings_dummy_sampler,
    settings_environment,
    settings_evaluation,
    settings_experiment,
    settings_learning,
    settings_model,
    settings_monitoring,
    settings_population,
    settings_sampling,
    settings_session,
)
from sample_factory.config.setting import Setting

_APPO = (
    settings_session.SETTINGS
    + settings_sampling.SETTINGS
    + settings_learning.SETTINGS
    + settings_model.SETTINGS
    + settings_population.SETTINGS
    + settings_monitoring.SETTINGS
)
_OF_ALGORITHM = {"APPO": _APPO, "DUMMY_SAMPLER": settings_dummy_sampler.SETTINGS}


def settings_for(algo: str, evaluation: bool = False) -> tuple[Setting, ...]:
    """Every setting of an algorithm, in the order in which help lists them; families add theirs."""
    evaluating = settings_evaluation.SETTINGS if evaluation else ()
    return settings_experiment.SETTINGS + _OF_ALGORITHM[algo] + settings_environment.SETTINGS + evaluating


def tunable_settings(algo: str = "APPO") -> dict[str, Setting]:
    """The hyper-parameters: settings that population-based training may change, by name."""
    return {setting.name: setting for setting in settings_for(algo) if setting.tunable}


def canonical_names(settings: Iterable[Setting]) -> dict[str, str]:
    """From each alias to the name of its setting."""
    return {alias: setting.name for setting in settings for alias in setting.aliases}
