"""Somebody who follows a page of the documentation, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.commands import environment
from tests.doc_blocks import blocks
from tests.running import RunningServer

SECONDS = 60.0
# The address of the examples.
ADDRESS = "http://127.0.0.1:7432"


def block(page: str, text: str) -> str:
    """The only code block of the page that has this text."""
    (found,) = [each.text for each in blocks("bash", "python", page=page) if text in each.text]
    return found


class Reader(NamedTuple):
    folder: Path
    server: RunningServer

    def own(self, text: str) -> str:
        """The example, with the folder and the server of this reader."""
        text = text.replace("/tmp/", f"{self.folder}/").replace("/path/to/", f"{self.folder}/")
        return text.replace(ADDRESS, self.server.url).replace(".venv/bin/", "")

    def run(self, script: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        with self.start(["bash", "-e", "-c", self.own(script)], folder) as process:
            try:
                out, err = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, command: list[str], folder: Path | None = None) -> subprocess.Popen[str]:
        bin_folder = Path(sys.executable).parent
        return subprocess.Popen(
            command,
            cwd=folder or self.folder,
            env=environment(self.server.url, PATH=f"{bin_folder}{os.pathsep}{os.environ['PATH']}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_python(self, program: str) -> subprocess.Popen[str]:
        return self.start([sys.executable, "-u", "-c", self.own(program)])
