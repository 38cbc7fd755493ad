"""Statistics of scores over runs and tasks: pure functions on numpy arrays."""
