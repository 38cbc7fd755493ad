"""v1's import name for `seeds`."""

from sample_factory.runner.parameters import seeds

__all__ = ["seeds"]
