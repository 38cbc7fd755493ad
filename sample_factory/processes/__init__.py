"""Shared memory, channels and supervision; knows no words of reinforcement learning."""
