"""Installs the servers that the peers need, from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from bench.peers.services import missing_packages


def install_servers() -> None:
    """As root; for another user it prints the command. What is missing then is skipped."""
    packages = missing_packages()
    if not packages:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed: {', '.join(packages)}. As root: {' '.join(command)}")
        return
    # Without a runlevel the packages do not start their services.
    subprocess.run(command, env=os.environ | {"RUNLEVEL": "1"}, stdout=sys.stderr, check=False)
