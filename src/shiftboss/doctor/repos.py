"""Checks git, the repositories of the policy (folder, branch, clean work tree), and their hooks."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Final

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.doctor.programs import run_program
from shiftboss.errors import EvidenceUnavailable, UnknownRepo
from shiftboss.evidence.mirror.repository import LONG_NAMES, LONG_NAMES_HINT, Repository
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.documents.wording import pluralize

# The first version with `rev-parse --path-format`.
GIT_MIN: Final = (2, 31)
# The hooks that a commit or push of a worker runs.
_HOOKS: Final = frozenset(
    ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push", "post-checkout")
)


async def check_git() -> list[Finding]:
    output = await run_program("git", "--version")
    if output is None or output.code != 0:
        return [problem("git", "git is not installed", "install git: nothing works without it")]
    version = re.search(r"(\d+)\.(\d+)", output.out)
    if version is None or (int(version[1]), int(version[2])) < GIT_MIN:
        wanted = ".".join(map(str, GIT_MIN))
        return [
            problem("git", f"{output.out.strip()} is too old", f"install git {wanted} or later")
        ]
    return [ok("git", output.out.strip())]


async def check_repos(policy: Policy) -> list[Finding]:
    checked = await asyncio.gather(
        *(_check_repo(name, repo) for name, repo in policy.repos.items())
    )
    findings = [finding for of_repo in checked for finding in of_repo]
    if policy.repos and not any(finding.check == "repos" for finding in findings):
        count = pluralize(len(policy.repos), "repo")
        findings.insert(0, ok("repos", f"{count} of the policy: found, with a clean work tree"))
    return findings


async def _check_repo(name: str, repo: RepoPolicy) -> list[Finding]:
    if repo.path is None:
        return [
            warning(
                "repos",
                f"{name} has no path: no task can be spawned in it",
                f"clone it, and set repos.{name}.path in the policy",
            )
        ]
    try:
        if await Repository().has_long_names(repo.path):
            return [problem("repos", f"{name} {LONG_NAMES}", LONG_NAMES_HINT)]
        tip = await Repository().commit_of(repo.path, f"refs/heads/{repo.branch}")
    except (UnknownRepo, EvidenceUnavailable) as error:
        return [
            problem("repos", f"{name}: {error.detail}", f"check repos.{name}.path in the policy")
        ]
    if tip is None:
        return [
            problem(
                "repos",
                f"{name} has no branch {repo.branch}",
                f"create it, or set repos.{name}.branch in the policy",
            )
        ]
    folder = Path(repo.path)
    return [*await _changes(name, folder), *await _hooks(name, folder)]


async def _changes(name: str, folder: Path) -> list[Finding]:
    """Uncommitted changes. A bare repository has none."""
    status = await run_program(
        "git", "-c", "core.fsmonitor=false", "status", "--porcelain", folder=folder
    )
    if status is None or status.code != 0 or not status.out:
        return []
    return [
        warning(
            "repos",
            f"{name} has uncommitted changes in {pluralize(len(status.out.splitlines()), 'file')}",
            "commit or stash them: workers and CI see committed files only",
        )
    ]


async def _hooks(name: str, folder: Path) -> list[Finding]:
    shared = await run_program(
        "git", "rev-parse", "--path-format=absolute", "--git-common-dir", folder=folder
    )
    if shared is None or shared.code != 0:
        return []
    elsewhere = await run_program(
        "git", "config", "--type=path", "--get", "core.hooksPath", folder=folder
    )
    own = await asyncio.to_thread(_hooks_in, Path(shared.out.strip()) / "hooks")
    path = elsewhere.out.strip() if elsewhere is not None and elsewhere.code == 0 else None
    return judge_hooks(name, own, path)


def _hooks_in(folder: Path) -> dict[str, bool]:
    """The hooks of a folder by name, and whether git would run them."""
    if not folder.is_dir():
        return {}
    return {
        file.name: os.access(file, os.X_OK)
        for file in sorted(folder.iterdir())
        if file.name in _HOOKS and file.is_file()
    }


def judge_hooks(name: str, own: dict[str, bool], elsewhere: str | None) -> list[Finding]:
    """`own` are the hooks of the repository and whether they can run; `elsewhere` is
    core.hooksPath."""
    if own and elsewhere:
        return [
            warning(
                "hooks",
                f"core.hooksPath of {name} is {elsewhere}: git ignores its own {', '.join(own)}",
                "unset it with git config --unset core.hooksPath, or move the hooks there",
            )
        ]
    disabled = [hook for hook, can_run in own.items() if not can_run]
    findings = [
        warning(
            "hooks",
            f"{', '.join(disabled)} of {name} is not executable, so git does not run it",
            "run chmod +x on it, or remove it",
        )
    ] * bool(disabled)
    enabled = [hook for hook, can_run in own.items() if can_run]
    if enabled:
        findings.append(
            ok("hooks", f"{name} runs {', '.join(enabled)} on commits and pushes of workers")
        )
    return findings
