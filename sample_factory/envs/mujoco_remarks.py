"""What MuJoCo remarks about model files while it compiles them.

Used where MuJoCo's tasks are made: by their own family and by the gymnasium family. Invariant: MuJoCo's way
of warning is afterwards what it was before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def quiet_model_compiler() -> Iterator[None]:
    """Keeps remarks about gymnasium's model files off the screen.

    MuJoCo also appends them to a file in the working directory, once for every environment made.
    """
    import mujoco

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: log.debug("MuJoCo: %s", text))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
