"""`sf dashboard`: a read-only page about all experiments, served from this machine to this machine."""
