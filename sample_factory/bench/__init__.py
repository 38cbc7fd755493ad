"""Measurements of the system itself: what it survives and how fast it is."""
