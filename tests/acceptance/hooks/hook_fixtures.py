"""A work tree under a contract, and its hooks as agents and git run them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from shiftboss.hooks.command import hook_argv
from shiftboss.hooks.contract import hash_of, write_contract
from tests.repos import ENVIRONMENT, Repo

SECONDS = 60
OWNED = ["src/auth/", "docs/new.md"]
READONLY = ["src/auth/names.py"]


class HookOutput(NamedTuple):
    code: int
    out: str
    err: str


class TaskWorkspace:
    """The tree is that of a `Repo`; the branch of the task is `task`."""

    def __init__(self, folder: Path, **members: Any) -> None:
        self.repo = Repo(folder / "tree")
        self.tree = self.repo.path
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.contract = self.scratch / "contract.json"
        self.write(**members)

    def write(self, **members: Any) -> None:
        handoff = members.pop("handoff", None) or _handoff()
        known: dict[str, Any] = {
            "swarm_id": "s",
            "bead_id": "t",
            "worker": "w",
            "epoch": 1,
            "contract_version": 1,
            "contract_hash": hash_of(handoff),
            "handoff": handoff,
            "generated": [],
            "tree": str(self.tree),
            "base": self.repo.base,
            "branch": "task",
            "server_url": "http://127.0.0.1:9",
        }
        write_contract(self.contract, known | members)

    def hook(self, kind: str, given: Any, **variables: str) -> HookOutput:
        text = given if isinstance(given, bytes) else json.dumps(given).encode()
        done = subprocess.run(
            hook_argv(kind, self.contract),
            input=text,
            capture_output=True,
            env=ENVIRONMENT | variables,
            cwd=self.tree,
            timeout=SECONDS,
            check=False,
        )
        return HookOutput(done.returncode, done.stdout.decode(), done.stderr.decode())

    def call(self, tool: str, folder: Path | None = None, **given: Any) -> dict[str, Any]:
        return {"tool_name": tool, "tool_input": given, "cwd": str(folder or self.tree)}

    def use(self, tool: str, **given: Any) -> HookOutput:
        return self.hook("pre-tool-use", self.call(tool, **given))

    def install_git_hooks(self) -> None:
        """In the git folder, as a launcher does."""
        for name in ("pre-commit", "pre-push"):
            file = self.tree / ".git" / "hooks" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f'#!/bin/sh\nexec {shlex.join(hook_argv(name, self.contract))} "$@"\n')
            file.chmod(0o755)

    def git(self, *arguments: str) -> HookOutput:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.tree,
            env=ENVIRONMENT | {"PATH": os.environ["PATH"]},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return HookOutput(done.returncode, done.stdout.decode(), done.stderr.decode())


def _handoff() -> dict[str, Any]:
    return {
        "contract": {
            "task_id": "t",
            "files_owned": OWNED,
            "files_readonly": READONLY,
            "dependencies_completed": [],
            "success_criteria": ["it works"],
        },
        "context": {"your_role": "ü"},
        "escalation": {},
    }
