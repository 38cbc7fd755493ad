"""v1's import path of the registry: `from sample_factory.envs.env_registry import global_env_registry`.

Scripts written for v1 call `global_env_registry().register_env(env_name_prefix=..., make_env_func=..., ...)`.
Everything lives in `registry`.
"""

from sample_factory.envs.registry import EnvRegistry, global_env_registry

__all__ = ["EnvRegistry", "global_env_registry"]
