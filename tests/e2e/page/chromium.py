"""The Chromium of the system. Playwright drives it; it does not bring a browser of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
INSTALL_SECONDS: Final = 600.0
# Without a sandbox it starts in containers too; it loads nothing but our own page.
ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    # A third less processor time per page: it draws nothing in three dimensions, and there is no
    # other site to keep apart from.
    "--disable-software-rasterizer",
    "--disable-site-isolation-trials",
    "--process-per-site",
)


def chromium() -> str:
    """Its path. Without it the test is skipped on a laptop, and fails in CI, which installs it if
    it may."""
    path = _found()
    if path is None and os.environ.get("CI") and os.geteuid() == 0:
        path = _install()
    if path is not None:
        return path
    reason = "Chromium is not installed: apt-get install chromium"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _found() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def _install() -> str | None:
    """Once, whichever of the test processes comes first."""
    with (Path(tempfile.gettempdir()) / "shiftboss-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _found() is None and shutil.which("apt-get"):
            _apt_get("update")
            _apt_get("install", "-y", "--no-install-recommends", "chromium", "fonts-liberation")
    return _found()


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        ["apt-get", "-q", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=INSTALL_SECONDS,
    )
