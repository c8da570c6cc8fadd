"""Small git repositories for the tests, and claims of work in them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob, Waiver
from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from tests.repo_templates import make_once

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Worker",
    "GIT_AUTHOR_EMAIL": "worker@shiftboss.invalid",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Worker",
    "GIT_COMMITTER_EMAIL": "worker@shiftboss.invalid",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
    # No git process after each commit that finds nothing to do.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
}

_COMMIT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class Repo:
    """A repository with `main` at the base, and `task` checked out for the worker. With
    `has_task=False`, there is only `main`."""

    def __init__(self, path: Path, object_format: str = "sha1", *, has_task: bool = True) -> None:
        self.path = path
        path.mkdir(parents=True)
        make_once(
            ("Repo", object_format, has_task), path, lambda: self._make(object_format, has_task)
        )
        self.base = self.head()

    def _make(self, object_format: str, has_task: bool) -> None:
        self.git("init", "--quiet", "--initial-branch=main", f"--object-format={object_format}")
        self.write(
            {
                "README.md": "# Sums\n",
                "src/auth/login.py": "def login():\n    return None\n",
                "src/auth/names.py": "NAMES = []\n",
                "src/lib/jwt.py": "def token():\n    return 'x'\n",
                "tests/test_login.py": "def test_login():\n    assert True\n",
            }
        )
        self.commit("base")
        if has_task:
            self.git("checkout", "--quiet", "-b", "task")

    def git(self, *arguments: str, stdin: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=ENVIRONMENT,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"git {arguments}: {done.stderr.decode()}"
        return done.stdout.decode().strip()

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    def commit(self, message: str, files: dict[str, str] | None = None) -> str:
        """Commit everything in the worktree; returns the commit id."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.head()

    def head(self) -> str:
        """Git is asked only if its files do not show it: tests ask for it very often."""
        folder = self.path / ".git"
        ref = _first_line(folder / "HEAD").removeprefix("ref: ")
        commit = _first_line(folder / ref) if ref.startswith("refs/heads/") else ref
        return commit if _COMMIT_ID.fullmatch(commit) else self.git("rev-parse", "HEAD")

    def on_main(self, files: dict[str, str]) -> str:
        """Commit on `main`, as if another task had landed."""
        self.git("checkout", "--quiet", "main")
        landed = self.commit("landed", files)
        self.git("checkout", "--quiet", "task")
        return landed

    def job(self, *, policy: dict[str, Any] | None = None, **members: Any) -> VerificationJob:
        """A claim of the tip of `task` for a worker that owns `src/auth/` and the tests."""
        contract = {
            "task_id": "bd-1",
            "files_owned": members.pop("owned", ["src/auth/", "tests/test_login.py"]),
            "files_readonly": members.pop("readonly", ["src/lib/jwt.py"]),
            "dependencies_completed": [],
            "success_criteria": members.pop("criteria", ["it works"]),
        }
        claim: dict[str, Any] = {
            "swarm_id": "s",
            "bead_id": "bd-1",
            "epoch": 1,
            "claim_id": 1,
            "repo": str(self.path),
            "base_commit": self.base,
            "branch": "task",
            "target": "main",
            "commit": self.head(),
            "files_touched": [],
            "contract_version": 1,
            "contract_hash": "0" * 64,
        }
        return VerificationJob(
            **(claim | members),
            contract=Contract(**contract),
            policy=VerificationPolicy(**(policy or {})),
        )


def _first_line(file: Path) -> str:
    return file.read_text(errors="replace").partition("\n")[0] if file.is_file() else ""


# For criteria that signal to the test, or do what a worker could do meanwhile.
UNCONTAINED = {"sandbox": "off"}


def outcomes(verdict: Verdict) -> dict[str, str]:
    """The outcome of each check; of several criteria, the last one."""
    return {result.check: result.outcome for result in verdict.checks}


def refused_paths(verdict: Verdict) -> list[str | None]:
    return sorted({violation.path for violation in verdict.violations}, key=str)


def waiver(check: str, subject: str) -> Waiver:
    return Waiver(check=check, subject=subject, reason="agreed", granted_by="operator")
