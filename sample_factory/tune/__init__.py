"""Tuning: searches hyper-parameters with several seeds per trial, then confirms the best on fresh seeds."""
