"""Atari 2600 games straight on the Arcade Learning Environment."""
