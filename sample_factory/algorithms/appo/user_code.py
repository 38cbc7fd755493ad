"""What users registered in the main process, on its way to the workers.

Workers are fresh processes: environments and encoders that a user's script registered would be unknown there.
They are pickled by value where needed, so that functions defined in the script itself work too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import cloudpickle

from sample_factory.envs.registry import global_env_registry


@dataclass(frozen=True)
class UserCode:
    """User registrations as bytes."""

    environments: bytes
    encoders: bytes | None

    @classmethod
    def capture(cls) -> UserCode:
        """Takes what is registered in this process."""
        # Only a process that has imported the encoders can have registered one, and that takes a second.
        encoders = sys.modules.get("sample_factory.model.encoders")
        return cls(
            environments=cloudpickle.dumps(global_env_registry().user_registrations()),
            encoders=cloudpickle.dumps(encoders.custom_encoders()) if encoders is not None else None,
        )

    def restore(self) -> None:
        """Registers it in this process."""
        global_env_registry().restore(cloudpickle.loads(self.environments))
        if self.encoders is not None:
            from sample_factory.model.encoders import register_custom_encoder

            for name, encoder in cloudpickle.loads(self.encoders).items():
                register_custom_encoder(name, encoder)
