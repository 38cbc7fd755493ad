"""Playing, scoring and recording trained policies."""
