"""Scripts that the site brings with it, so that it asks no other host for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

SECONDS: Final = 120


class Script(NamedTuple):
    """A file of a package of npm, and where it is in the site."""

    package: str
    member: str
    path: str

    def content(self) -> bytes | None:
        """Downloaded once per user. None if it cannot be had."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cached = home / "shiftboss-docs" / f"{self.package}.js"
        if cached.exists():
            return cached.read_bytes()
        content = self._downloaded()
        if content is not None:
            cached.parent.mkdir(parents=True, exist_ok=True)
            cached.write_bytes(content)
        return content

    def _downloaded(self) -> bytes | None:
        npm = shutil.which("npm")
        if npm is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            argv = [npm, "pack", "--silent", "--pack-destination", folder, self.package]
            try:
                subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS)
            except (subprocess.SubprocessError, OSError):
                return None
            (archive,) = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as package:
                member = package.extractfile(self.member)
                return None if member is None else member.read()


# Draws the diagrams; without it they are shown as text.
MERMAID: Final = Script(
    "mermaid@11.12.0", "package/dist/mermaid.min.js", "assets/javascripts/mermaid.min.js"
)
# Lets the search work in a site that is opened from the disk.
WORKER_SHIM: Final = Script(
    "iframe-worker@1.0.4", "package/shim/index.js", "assets/javascripts/iframe-worker.js"
)
SCRIPTS: Final = (MERMAID, WORKER_SHIM)
