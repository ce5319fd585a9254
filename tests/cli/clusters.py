"""A SLURM cluster of two nodes on this machine, from Debian's packages; it needs root and nothing
else: no accounts, no keys, ports that are free."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NODES = ("one", "two")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")
CONFIGURATION = """
ClusterName=hotlap
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
KillWait=5
NodeName=one NodeHostname=localhost NodeAddr=127.0.0.1 Port={one} CPUs=2 State=UNKNOWN
NodeName=two NodeHostname=localhost NodeAddr=127.0.0.1 Port={two} CPUs=2 State=UNKNOWN
PartitionName=test Nodes=one,two Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be none; empty where there can."""
    absent = [name for name in PROGRAMS if _program(name) is None]
    if absent:
        return f"{', '.join(absent)} are not installed: apt-get install slurm-wlm"
    return "" if getpass.getuser() == "root" else "its daemons need root"


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """What the environment needs for its programs to find it."""
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    configuration = folder / "slurm.conf"
    ports = {name: free_port() for name in ("controller", *NODES)}
    configuration.write_text(CONFIGURATION.format(folder=folder, user=getpass.getuser(), **ports))
    found = {"SLURM_CONF": str(configuration)}
    daemons = [
        subprocess.Popen(
            [_program(name) or name, "-D", *words],
            env={**os.environ, **found},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, *words in (("slurmctld",), *(("slurmd", "-N", node) for node in NODES))
    ]
    try:
        _ready(found)
        yield found
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)


def queue(environment: dict[str, str]) -> list[str]:
    """The jobs that wait or run."""
    done = subprocess.run(
        ["squeue", "--noheader", "--format=%i %T"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if line.strip()]


def emptied(environment: dict[str, str], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while queue(environment):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _ready(environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["srun", "--immediate=60", "--nodes=2", "true"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
