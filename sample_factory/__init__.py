"""Sample Factory, rebuilt: asynchronous reinforcement learning that gets the most out of one machine."""

__version__ = "0.1.0"
