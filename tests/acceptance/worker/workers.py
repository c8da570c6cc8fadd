"""Workers for tests: in this process, or as a script in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shiftboss.worker.swarm_worker import SwarmWorker
from tests.acceptance.swarms.packets import SWARM
from tests.fork_server import start_python

SCRIPT_SECONDS = 60.0
SNIPPETS = Path(__file__).parent / "snippets"


def worker_at(url: str, worktree: Path | str, **changes: Any) -> SwarmWorker:
    """The document's worker, in a scratch worktree."""
    members: dict[str, Any] = {
        "swarm_id": SWARM,
        "packet_id": 1,
        "packet_name": "backend-api",
        "worktree": str(worktree),
        "tasks_total": 10,
        "server": url,
    }
    return SwarmWorker(**(members | changes))


def checkpoint_file(worktree: Path, name: str = "packet-1-backend-api") -> Path:
    return worktree / ".spellbook" / "checkpoints" / f"{name}.json"


def checkpoint(worktree: Path, name: str = "packet-1-backend-api") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checkpoint_file(worktree, name).read_text())
    return found


def outbox_folder(worktree: Path, name: str = "packet-1-backend-api") -> Path:
    return worktree / ".spellbook" / "outbox" / name


def waiting(worktree: Path, name: str = "packet-1-backend-api") -> list[dict[str, Any]]:
    """The reports in the outbox, in order."""
    files = sorted(outbox_folder(worktree, name).glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def all_delivered(worktree: Path) -> bool:
    return not list(outbox_folder(worktree).glob("*.json"))


def as_script(snippet: str) -> str:
    """A snippet with `await` at its top, as a program."""
    body = textwrap.indent(textwrap.dedent(snippet), "    ")
    return f"import asyncio\n\nasync def main():\n{body}\n\nasyncio.run(main())\n"


def method(number: int, worktree: Path | str, url: str) -> str:
    """The document's snippet as a program. Its path and its port alone are others: not every
    machine lets the tests create /path."""
    text = (SNIPPETS / f"method_{number}.txt").read_text(encoding="utf-8")
    port = str(urlsplit(url).port)
    return as_script(text.replace("/path/to/worktree", str(worktree)).replace("7432", port))


def run_script(script: str, url: str) -> str:
    """Returns the output. The script must succeed without a single warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=os.environ | {"SHIFTBOSS_URL": url},
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


class ScriptProcess:
    """A script that runs until it is killed. It prints its progress line by line."""

    def __init__(self, script: str, url: str) -> None:
        self._process = start_python(
            ["-c", script],
            environment=os.environ | {"SHIFTBOSS_URL": url},
            stdin=subprocess.PIPE,
            stderr=2,
        )

    def next_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def end(self) -> int:
        """Wait until it exits; returns the exit code."""
        self._process.communicate(timeout=SCRIPT_SECONDS)
        return self._process.wait()
