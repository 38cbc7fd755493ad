"""Puts a job's command into a container: docker, singularity or apptainer.

Used by `commands`, for every back end alike. The working directory is `/workspace` inside. Variables are
passed by name, never by value, so that no secret shows up in a list of processes. Invariant: the result
is a command that ends when the job ends, with the job's exit code.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WORKSPACE = "/workspace"
DOCKER = "docker"
SINGULARITY = ("singularity", "apptainer")
KINDS = (DOCKER, *SINGULARITY)


@dataclass(frozen=True)
class Container:
    """How to run commands in an image.

    Attributes:
        kind: `docker`, `singularity` or `apptainer`.
        image: a name, or the path of an image file.
        train_dir: also visible inside, under its own path, when it is not below the working directory.
        extra: more arguments for the container program.
    """

    kind: str
    image: str
    train_dir: str
    extra: str = ""

    def wrap(self, command: Sequence[str], variables: Sequence[str], gpu: str | None) -> list[str]:
        """The command that runs `command` inside.

        Args:
            command: what to run.
            variables: names of environment variables the job needs.
            gpu: the GPU the job may use, `"all"`, or None for no GPU.
        """
        if self.kind == DOCKER:
            return self._docker(command, variables, gpu)
        return self._singularity(command, gpu)

    def _docker(self, command: Sequence[str], variables: Sequence[str], gpu: str | None) -> list[str]:
        # --init passes signals on, so that a job that is told to stop can save.
        wrapped = ["docker", "run", "--rm", "--init"]
        for source, target in self._mounts():
            wrapped += ["-v", f"{source}:{target}"]
        wrapped += ["-w", WORKSPACE]
        for name in variables:
            # Inside, the one GPU that docker shows is number 0, whatever it is outside.
            if name != "CUDA_VISIBLE_DEVICES":
                wrapped += ["-e", name]
        if gpu is not None:
            wrapped += ["--gpus", "all" if gpu == "all" else f"device={gpu}"]
        return [*wrapped, *shlex.split(self.extra), self.image, *command]

    def _singularity(self, command: Sequence[str], gpu: str | None) -> list[str]:
        wrapped = [self.kind, "exec", *(["--nv"] if gpu is not None else [])]
        for source, target in self._mounts():
            wrapped += ["-B", f"{source}:{target}"]
        return [*wrapped, "--pwd", WORKSPACE, *shlex.split(self.extra), self.image, *command]

    def _mounts(self) -> list[tuple[str, str]]:
        here = Path.cwd()
        mounts = [(str(here), WORKSPACE)]
        train_dir = Path(self.train_dir).absolute()
        if not train_dir.is_relative_to(here):
            mounts.append((str(train_dir), str(train_dir)))
        return mounts
