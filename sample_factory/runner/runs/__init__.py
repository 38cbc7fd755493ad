"""Descriptions that come with the launcher: `--run=doom_basic_envs` finds them by their short names."""
