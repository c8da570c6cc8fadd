"""A repository with the settings of its user, and work trees of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.landing.work_landing import AcceptedWork
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.orchestrator.worktrees.worktree_folder import WorktreeFolder
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.plan import PlanRepo
from shiftboss.system.fast_import import commit_start, written_file
from tests.repos import ENVIRONMENT, Repo

_COMMITTER = b"committer Worker <worker@shiftboss.invalid> 1704067200 +0000"


class Project:
    """`repo` has `main` checked out. Its work trees are in `folder`/trees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = Repo(folder / "repo", has_task=False)
        self.worktrees = WorktreeFolder(folder / "trees")

    def assignment(self, bead_id: str = "bd-1", epoch: int = 1, **members: Any) -> AgentAssignment:
        values: dict[str, Any] = {
            "swarm_id": "s",
            "bead_id": bead_id,
            "title": f"the work of {bead_id}",
            "worker": "s-1",
            "epoch": epoch,
            "repo": self.repo.path,
            "base": self.repo.base,
            "branch": f"shiftboss/{bead_id}",
            "target": "main",
            "contract_version": 1,
            "handoff": {},
            "contract_hash": "",
        }
        return AgentAssignment(**(values | members))

    async def create(
        self,
        assignment: AgentAssignment | None = None,
        *,
        continue_branch: bool = False,
        **plan: Any,
    ) -> Worktree:
        assignment = assignment or self.assignment()
        return await self.worktrees.create(
            assignment,
            PlanRepo(**plan),
            self.contract_file(assignment),
            continue_branch=continue_branch,
        )

    def contract_file(self, assignment: AgentAssignment) -> Path:
        file = self.folder / "runs" / assignment.name / "contract.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def accepted_work(
        self, bead_id: str, commit: str, *criteria: str, **members: Any
    ) -> AcceptedWork:
        values: dict[str, Any] = {
            "bead_id": bead_id,
            "title": f"the work of {bead_id}",
            "repo": self.repo.path,
            "commit": commit,
            "target": "main",
            "criteria": criteria,
            "policy": VerificationPolicy(),
            "receipt_id": f"receipt-{bead_id}",
        }
        return AcceptedWork(**(values | members))

    def work(self, bead_id: str, files: dict[str, str], base: str | None = None) -> str:
        """A commit on a branch that is checked out nowhere."""
        stream = commit_start(
            f"refs/heads/shiftboss/{bead_id}",
            [_COMMITTER],
            f"work of {bead_id}\n".encode(),
            [(base or self.repo.base).encode()],
        ) + b"".join(written_file(path, text.encode()) for path, text in files.items())
        return self.repo.git("fast-import", "--quiet", stdin=stream + b"get-mark :1\n")

    def refs(self, below: str = "refs/shiftboss/") -> dict[str, str]:
        lines = self.repo.git("for-each-ref", "--format=%(refname) %(objectname)", below)
        return dict(line.split(" ", 1) for line in lines.splitlines())

    def registered(self) -> list[str]:
        """The work trees in git's list, without the main one."""
        lines = self.repo.git("worktree", "list", "--porcelain").splitlines()
        return [line for line in lines if line.startswith("worktree ")][1:]

    def text(self, commit: str, path: str) -> str:
        return self.repo.git("show", f"{commit}:{path}")

    def tip(self, branch: str = "main") -> str:
        return self.repo.git("rev-parse", f"refs/heads/{branch}")


def run_in(folder: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as an agent would."""
    return subprocess.run(
        argv,
        cwd=folder,
        env=ENVIRONMENT | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def commit_in(folder: Path, files: dict[str, str], message: str = "work") -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for argv in (["add", "--all"], ["commit", "--quiet", "--no-verify", "--message", message]):
        done = run_in(folder, "git", *argv)
        assert done.returncode == 0, done.stderr
    return run_in(folder, "git", "rev-parse", "HEAD").stdout.strip()


def user_settings(folder: Path) -> dict[str, str]:
    """The environment of a user with an identity in git."""
    config = folder / "gitconfig"
    config.write_text("[user]\n\tname = Ada\n\temail = ada@shiftboss.invalid\n")
    variables = {"GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    return variables | {"PATH": os.environ["PATH"]}
