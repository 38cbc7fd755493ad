"""`sf bench`: measurements of the system itself, taken from outside; see `speed`."""
