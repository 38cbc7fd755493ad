"""The first look at an environment and its network, before anything is planned.

In a child process, so that the main process stays without torch and survives a simulator that does not.
Invariant: what a user can mend is raised as it is; anything else fails with the first attempt's error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sample_factory.algorithms.appo.engine import ComponentFailedError
from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.processes.child_call import ChildCallError, call_in_child

if TYPE_CHECKING:
    from sample_factory.algorithms.appo.probe import Probe

log = logging.getLogger("sample_factory")

PROBE_ATTEMPTS = 3  # a simulator that fails now and then may do so right at the start


def probe_environment(cfg: Config) -> Probe:
    """Looks at the environment and the network, in a child process unless everything is in this one."""
    if cfg.serial_mode:
        from sample_factory.algorithms.appo.probing import probe

        return probe(cfg, UserCode.capture())
    first: ChildCallError | None = None
    for _ in range(PROBE_ATTEMPTS):
        try:
            return call_in_child(_probe_in_child, cfg, UserCode.capture(), timeout=cfg.reset_timeout_seconds)
        except ChildCallError as error:
            if isinstance(error.__cause__, ConfigError | UnknownEnvError | MissingPackageError):
                raise error.__cause__ from None
            log.warning("--env=%s can't be made: %s\n%s", cfg.env, error, error.trace)
            first = first or error
    assert first is not None
    raise ComponentFailedError(f"--env={cfg.env} can't be made: {first}", first.trace)


def _probe_in_child(cfg: Config, user_code: UserCode) -> Any:
    from sample_factory.algorithms.appo.probing import probe

    return probe(cfg, user_code)
