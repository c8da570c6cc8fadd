"""Programs that tests need and pip cannot install: those of Debian's packages.

A test without its program is skipped on a laptop, with the command that installs it. It fails in
CI. If CI runs as root, the first test that needs a program installs all that are missing, with one
call of apt-get.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

# By the name of the program. Go takes 8 s, Cargo and promtool 4 s each.
PACKAGES: Final[Mapping[str, Sequence[str]]] = {
    "bwrap": ("bubblewrap",),
    "cargo": ("cargo",),
    # Chromium without windows: half of the processor time.
    "chromium-headless-shell": ("chromium-headless-shell", "fonts-liberation"),
    "curl": ("curl",),
    "gcc": ("gcc", "libc6-dev"),
    "go": ("golang-go",),
    "openssl": ("openssl",),
    "promtool": ("prometheus",),
    "rustc": ("rustc",),
    "systemd-analyze": ("systemd",),
}
OTHER_NAMES: Final = {
    "chromium-headless-shell": (
        "chromium",
        "chromium-browser",
        "google-chrome-stable",
        "google-chrome",
    )
}
INSTALL_SECONDS: Final = 600.0
# Another program may be installing packages.
_APT_GET: Final = ("apt-get", "-q", "-o", f"DPkg::Lock::Timeout={INSTALL_SECONDS:.0f}")
# Nobody is there to answer, and the servers of the packages are not to be started.
_UNATTENDED: Final = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}


class DebianPackages:
    """Each process of the tests asks apt-get once at most."""

    def __init__(self, packages: Mapping[str, Sequence[str]], lock: Path) -> None:
        self._packages = packages
        self._lock = lock
        self._tried = False

    def program(self, name: str) -> str:
        """Its path. Without it the test is skipped on a laptop, and fails in CI."""
        in_ci = bool(os.environ.get("CI"))
        if in_ci and os.geteuid() == 0 and shutil.which("apt-get"):
            self._install_missing()
        path = _found(name)
        if path is not None:
            return path
        reason = f"{name} is not installed: apt-get install {' '.join(self._packages[name])}"
        if in_ci:
            pytest.fail(reason)
        pytest.skip(reason)

    def _install_missing(self) -> None:
        """All that are missing, by whichever process of the tests comes first. The others wait: a
        program may be there before its libraries."""
        if self._tried:
            return
        self._tried = True
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            missing = [
                package
                for name, packages in self._packages.items()
                if _found(name) is None
                for package in packages
            ]
            if missing:
                _apt_get("update")
                _apt_get("install", "--yes", "--no-install-recommends", *missing)


_DEBIAN: Final = DebianPackages(
    PACKAGES, Path(tempfile.gettempdir()) / "shiftboss-debian-packages.lock"
)


def program(name: str) -> str:
    """The path of one of `PACKAGES`."""
    return _DEBIAN.program(name)


def _found(name: str) -> str | None:
    return next(filter(None, map(shutil.which, (name, *OTHER_NAMES.get(name, ())))), None)


def _apt_get(*arguments: str) -> None:
    subprocess.run(
        [*_APT_GET, *arguments],
        env={**os.environ, **_UNATTENDED},
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=INSTALL_SECONDS,
    )
