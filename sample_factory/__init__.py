"""Sample Factory, rebuilt: asynchronous reinforcement learning that gets the most out of one machine."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sample_factory.evaluation.policy import load_policy

__version__ = "0.1.0"

__all__ = ["__version__", "load_policy"]


def __getattr__(name: str) -> Any:
    """`load_policy` needs torch, which takes seconds: it is imported by those who ask for it."""
    if name == "load_policy":
        from sample_factory.evaluation.policy import load_policy

        return load_policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
