"""Sample Factory 2's name for `runner`: its scripts and command lines work unchanged."""
