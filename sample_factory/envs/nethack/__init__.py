"""The NetHack Learning Environment's tasks."""
