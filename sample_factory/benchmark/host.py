"""Where a run took place: machine, graphics cards, packages, commit, job.

The run record stores these facts so that numbers can be traced and speeds compared fairly.

Invariant: nothing here imports torch, fails, or takes more than its time limits; what is unknown is left out.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_factory.config.provenance import NO_REPOSITORY, UNKNOWN_HASH, git_checkout, git_diff, git_identity

RECORDED_PACKAGES = ("sample-factory-rebuilt", "numpy", "torch", "gymnasium", "vizdoom", "ale-py", "mujoco")
_GPU_QUERY_TIMEOUT_SEC = 3.0


def describe_host() -> dict[str, Any]:
    """The machine this process runs on."""
    return {
        "hostname": socket.gethostname(),
        "os": [platform.system(), platform.release()],
        "python_version": platform.python_version(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "gpus": _gpus(),
    }


def describe_code(start: Path) -> list[dict[str, Any]]:
    """The git checkout around a directory, as a list with one entry or none."""
    if git_checkout(start) is None:
        return []
    commit, url = git_identity(start)
    return [
        {
            "url": None if url == NO_REPOSITORY else url,
            "commit": None if commit == UNKNOWN_HASH else commit,
            "dirty": bool(git_diff(start)),
        }
    ]


def package_versions() -> list[str]:
    """`name==version` of the packages that decide what a run computes."""
    versions = []
    for name in RECORDED_PACKAGES:
        try:
            versions.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def all_packages() -> list[str]:
    """`name==version` of everything that is installed, sorted."""
    found = {
        f"{distribution.metadata['Name']}=={distribution.version}"
        for distribution in importlib.metadata.distributions()
        if distribution.metadata["Name"]
    }
    return sorted(found, key=str.lower)


def describe_job(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """How this process was started, as far as its environment tells."""
    job: dict[str, Any] = {"backend": "local", "id": str(os.getpid()), "pid": os.getpid()}
    if "SLURM_JOB_ID" in environment:
        array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
        job |= {"backend": "slurm", "id": f"{array}_{task}" if array else environment["SLURM_JOB_ID"]}
    if "CUDA_VISIBLE_DEVICES" in environment:
        job["gpu"] = environment["CUDA_VISIBLE_DEVICES"]
    return job


def process_is_alive(pid: int) -> bool:
    """Whether a process of this machine exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpus() -> list[dict[str, Any]]:
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_GPU_QUERY_TIMEOUT_SEC, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    gpus = []
    for line in answer.stdout.splitlines():
        model, _, memory = line.rpartition(",")
        if memory.strip().isdigit():
            gpus.append({"model": model.strip(), "memory_mb": int(memory)})
    return gpus
