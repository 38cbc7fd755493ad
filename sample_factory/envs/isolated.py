"""Families whose simulators cannot share a Python environment with the others.

Their packages pin versions of gymnasium, numpy or MuJoCo that conflict with the rest; no extra brings them.
Invariant: who lacks such a package reads which command installs it, and where.
"""

from __future__ import annotations

import importlib.util

from sample_factory.envs.registry import MissingPackageError


def require_isolated_package(env_name: str, module: str, command: str) -> None:
    """Makes sure that a module can be imported.

    Raises:
        MissingPackageError: it cannot; the message gives the command that installs it.
    """
    if importlib.util.find_spec(module) is None:
        raise MissingPackageError(
            f"--env={env_name} needs the package {module}, which is not installed; "
            f"in a Python environment of its own: {command}",
            name=module,
        )
