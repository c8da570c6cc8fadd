"""Programs from npm, at exact versions, installed once for all clones of the project."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.e2e.agents.process_groups import run_group

_OF_CLONE: Final = Path(__file__).parents[3] / ".cache"
_OF_USER: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
# Some of the programs need a later Node.js than many systems have.
NODE: Final = "node@22.23.3"
INSTALL_SECONDS: Final = 480.0


class Program:
    """`Program("name@1.2.3")`, installed on first use."""

    def __init__(self, package: str) -> None:
        self._node = _installed(NODE)
        self.folder = _installed(package)

    def argv(self, command: str, *arguments: str) -> list[str]:
        return [str(self.folder / "node_modules" / ".bin" / command), *arguments]

    def environment(self, **variables: str) -> dict[str, str]:
        """Our environment, with the right Node.js first on the PATH."""
        node = self._node / "node_modules" / "node" / "bin"
        return {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}", **variables}


@cache
def _cache() -> Path:
    """Outside of the clone if possible: to install all programs takes half a minute of CPU time."""
    system = f"npm-{sys.platform}-{platform.machine()}"
    of_user = _OF_USER / "shiftboss-tests" / system
    try:
        of_user.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _OF_CLONE / system
    return of_user if os.access(of_user, os.W_OK) else _OF_CLONE / system


def _installed(package: str) -> Path:
    folder = _cache() / package.replace("/", "+")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / "complete"
        if not complete.exists():
            _install(folder, package)
            complete.touch()
    return folder


def _install(folder: Path, package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _not_to_be_had("npm is not installed")
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder)]
    try:
        done = run_group([npm, "install", *options, package], INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        _not_to_be_had(f"npm did not install {package} in {INSTALL_SECONDS:.0f} seconds")
    if done.returncode != 0:
        _not_to_be_had(f"npm could not install {package}:\n{done.stderr[-2000:]}")


def _not_to_be_had(reason: str) -> NoReturn:
    """Skipped on a laptop, a failure in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
