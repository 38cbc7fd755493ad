"""`benchmark wrap`: runs a script's own `main(env=...)`, records what it does, tests and films the result."""
