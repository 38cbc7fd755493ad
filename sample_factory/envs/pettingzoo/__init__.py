"""PettingZoo's multi-agent environments."""
