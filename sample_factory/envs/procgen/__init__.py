"""Procgen's sixteen games with generated levels."""
