"""A git repository of the kit, for servers on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from shiftboss.conformance.calls import Answered
from shiftboss.conformance.checks import Broken
from shiftboss.conformance.server.harness import Bus, ServerHarness, not_local
from shiftboss.system.loopback import is_loopback

GIT_SECONDS: Final = 30.0
BASE: Final = {"src/auth.txt": "login\n", "src/types.txt": "user\n", "README.md": "# Project\n"}
_IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "conformance",
    "GIT_AUTHOR_EMAIL": "conformance@localhost",
    "GIT_COMMITTER_NAME": "conformance",
    "GIT_COMMITTER_EMAIL": "conformance@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


class SampleRepository:
    def __init__(self, folder: Path, git: str) -> None:
        self.folder = folder
        self._git = git
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit(BASE)
        self.base = self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._git, *arguments],
            cwd=self.folder,
            env=os.environ | _IDENTITY,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str]) -> str:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Work")
        return self.git("rev-parse", "HEAD")

    def start_over(self) -> None:
        self.git("reset", "--quiet", "--hard", self.base)


class SpawnedTask:
    """A task with a contract in a repository of its own, and a worker for it."""

    def __init__(self, harness: ServerHarness, repository: SampleRepository) -> None:
        self.bus: Bus = harness.bus()
        self.repository = repository
        self.bead_id = self.bus.name("task")
        self.name = self.bus.worker("w")

    def spawn(self, bead_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Raises NotChecked if the server may not or cannot use the repository."""
        answered = self.ask_spawn(bead_id, **changes)
        if not answered.is_error:
            return answered.document
        code = answered.document.get("code")
        detail = str(answered.document.get("error") or answered.document)
        if code in ("unknown_repo", "forbidden", "evidence_unavailable"):
            raise not_local(detail)
        raise Broken(f"the spawn was refused: {detail}")

    def ask_spawn(self, bead_id: str | None = None, **changes: Any) -> Answered:
        members: dict[str, Any] = {
            "bead_id": bead_id or self.bead_id,
            "files": ["src/auth.txt", "src/new/**"],
            "subtask_title": "Implement AuthService",
            "repo": str(self.repository.folder),
            "branch": "main",
            "success_criteria": ["Command passes: test -f src/new/service.txt"],
        }
        return self.bus.ask("swarm_spawn_subtask", **(members | changes))

    def taken(self, **changes: Any) -> SpawnedTask:
        self.spawn(**changes)
        self.bus.take(self.name, self.bead_id)
        return self


@contextmanager
def spawned(harness: ServerHarness) -> Iterator[SpawnedTask]:
    harness.needs_tool("swarm_spawn_subtask")
    git = shutil.which("git")
    if git is None:
        raise not_local("there is no git here")
    host = urlsplit(harness.calls.address).hostname or ""
    if not is_loopback(host):
        raise not_local(f"{host} is another machine")
    with tempfile.TemporaryDirectory(prefix="shiftboss-conformance-") as folder:
        yield SpawnedTask(harness, SampleRepository(Path(folder).resolve(), git))
