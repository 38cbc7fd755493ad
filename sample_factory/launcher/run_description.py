"""`RunDescription` and its parts under the name that Sample Factory 2's scripts import."""

from __future__ import annotations

from sample_factory.runner.run_description import Experiment, ParamGrid, ParamList, RunDescription

__all__ = ["Experiment", "ParamGrid", "ParamList", "RunDescription"]
