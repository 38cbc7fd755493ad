"""A private Slurm of one node, for as long as tests need it.

Everything lives in one directory: keys, configuration, state, logs. The three daemons run in the foreground
as our own children, on free ports, so that nothing of it can meet another cluster and nothing stays.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.runner.launching import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
_PATIENCE_SEC = 40.0

_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,bf_interval=1
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10
"""
_CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n"


class SlurmUnavailableError(RuntimeError):
    """Slurm can't be started here; the message says why."""


class SlurmCluster:
    """Start with `start`, end with `stop`; `configuration` goes into SLURM_CONF."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.configuration = directory / "slurm.conf"
        self.cpus = os.cpu_count() or 1
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Raises SlurmUnavailableError when it does not work here."""
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise SlurmUnavailableError(f"{missing[0]} is not installed (apt-get install slurm-wlm munge)")
        if os.geteuid() != 0:
            raise SlurmUnavailableError("slurmd must be started by root")
        self._write_files()
        base = str(self.directory)
        self._daemon(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={base}/munge.key",
            f"--socket={base}/munge.socket",
            f"--pid-file={base}/munged.pid",
            f"--log-file={base}/munged.log",
            f"--seed-file={base}/munged.seed",
        )
        self._await(lambda: (self.directory / "munge.socket").exists(), "munged")
        self._daemon("slurmctld", "-D", "-c")
        self._daemon("slurmd", "-D", "-c")
        self._await(self._is_idle, "the node")

    def stop(self) -> None:
        """Ends jobs, then daemons in the order in which they need each other."""
        if self._is_up():
            subprocess.run(
                ["scancel", "-u", getpass.getuser()], env=self.environment(), capture_output=True, check=False
            )
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's programs find this cluster."""
        return {**os.environ, "SLURM_CONF": str(self.configuration)}

    def run(self, *command: str) -> str:
        """What one of Slurm's programs prints."""
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=True)
        return done.stdout

    def _write_files(self) -> None:
        for name in ("state", "spool"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        self.configuration.write_text(
            _CONFIGURATION.format(
                host=socket.gethostname().split(".")[0],
                directory=self.directory,
                user=getpass.getuser(),
                controller_port=free_port(),
                node_port=free_port(),
                cpus=self.cpus,
                memory_mb=max(memory_mb - 1024, 512),
            )
        )
        (self.directory / "cgroup.conf").write_text(_CGROUPS)

    def _daemon(self, *command: str) -> None:
        with (self.directory / f"{command[0]}.out").open("wb") as output:
            self._daemons.append(
                subprocess.Popen(
                    command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            )

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SEC
        while not condition():
            dead = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise SlurmUnavailableError(f"{what} did not start: {self._last_words()}")
            time.sleep(0.05)

    def _is_up(self) -> bool:
        return len(self._daemons) == 3 and all(daemon.poll() is None for daemon in self._daemons)

    def _is_idle(self) -> bool:
        done = subprocess.run(
            ["sinfo", "-h", "-p", "main", "-o", "%T"],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() == "idle"

    def _last_words(self) -> str:
        lines = []
        for path in sorted([*self.directory.glob("*.log"), *self.directory.glob("*.out")]):
            content = path.read_text(errors="replace").splitlines()
            lines += [f"{path.name}: {line}" for line in content[-2:]]
        return " | ".join(lines)
