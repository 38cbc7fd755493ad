"""The error that evaluation reports to people. Entry points catch it and print its sentence; no traceback."""

from __future__ import annotations


class EvaluationError(Exception):
    """A policy cannot be evaluated, shown or recorded; the message is one sentence for the user."""
