"""MiniGrid's grid worlds."""
