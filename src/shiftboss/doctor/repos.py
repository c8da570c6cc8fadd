"""git, and the repositories of the policy: there, clean, with their branch; and their hooks."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Final

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.doctor.programs import said_by
from shiftboss.errors import EvidenceUnavailable, UnknownRepo
from shiftboss.evidence.mirror.repository import LONG_NAMES, LONG_NAMES_HINT, Repository
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.documents.wording import how_many

# `rev-parse --path-format` came with it.
GIT_MIN: Final = (2, 31)
# Those that a worker's commit or push runs into.
_HOOKS: Final = frozenset(
    ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push", "post-checkout")
)


async def look_at_git() -> list[Finding]:
    said = await said_by("git", "--version")
    if said is None or said.code != 0:
        return [problem("git", "git is not installed", "install git; nothing works without it")]
    version = re.search(r"(\d+)\.(\d+)", said.out)
    if version is None or (int(version[1]), int(version[2])) < GIT_MIN:
        wanted = ".".join(map(str, GIT_MIN))
        return [problem("git", f"{said.out.strip()} is too old", f"install git {wanted} or later")]
    return [ok("git", said.out.strip())]


async def look_at_repos(policy: Policy) -> list[Finding]:
    each = await asyncio.gather(*(_look(name, repo) for name, repo in policy.repos.items()))
    findings = [one for found in each for one in found]
    if policy.repos and not any(one.check == "repos" for one in findings):
        count = how_many(len(policy.repos), "repo")
        findings.insert(0, ok("repos", f"{count} of the policy: there, clean, on git"))
    return findings


async def _look(name: str, repo: RepoPolicy) -> list[Finding]:
    if repo.path is None:
        return [
            warning(
                "repos",
                f"{name} has no path: no task can be spawned in it",
                f"clone it, and give repos.{name}.path in the policy",
            )
        ]
    try:
        if await Repository().has_long_names(repo.path):
            return [problem("repos", f"{name} {LONG_NAMES}", LONG_NAMES_HINT)]
        tip = await Repository().commit_of(repo.path, f"refs/heads/{repo.branch}")
    except (UnknownRepo, EvidenceUnavailable) as error:
        return [problem("repos", f"{name}: {error.detail}", f"see repos.{name}.path in the policy")]
    if tip is None:
        return [
            problem(
                "repos",
                f"{name} has no branch {repo.branch}",
                f"make it, or give repos.{name}.branch in the policy",
            )
        ]
    folder = Path(repo.path)
    return [*await _changes(name, folder), *await _hooks(name, folder)]


async def _changes(name: str, folder: Path) -> list[Finding]:
    """A repository without a work tree has nothing to be unclean."""
    said = await said_by(
        "git", "-c", "core.fsmonitor=false", "status", "--porcelain", folder=folder
    )
    if said is None or said.code != 0 or not said.out:
        return []
    return [
        warning(
            "repos",
            f"{name} has changes that are not committed: {len(said.out.splitlines())}",
            "commit or stash them: what is not committed is not seen, and is not in CI",
        )
    ]


async def _hooks(name: str, folder: Path) -> list[Finding]:
    shared = await said_by(
        "git", "rev-parse", "--path-format=absolute", "--git-common-dir", folder=folder
    )
    if shared is None or shared.code != 0:
        return []
    elsewhere = await said_by(
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
        one.name: os.access(one, os.X_OK)
        for one in sorted(folder.iterdir())
        if one.name in _HOOKS and one.is_file()
    }


def judge_hooks(name: str, own: dict[str, bool], elsewhere: str | None) -> list[Finding]:
    """`own` are those of the repository: whether each could run. `elsewhere` is core.hooksPath."""
    if own and elsewhere:
        return [
            warning(
                "hooks",
                f"core.hooksPath of {name} is {elsewhere}, which shadows its own {', '.join(own)}",
                "unset it with git config --unset core.hooksPath, or move the hooks there",
            )
        ]
    asleep = [hook for hook, can_run in own.items() if not can_run]
    findings = [
        warning(
            "hooks",
            f"{', '.join(asleep)} of {name} cannot be run, so git passes over it",
            "chmod +x, or remove it",
        )
    ] * bool(asleep)
    awake = [hook for hook, can_run in own.items() if can_run]
    if awake:
        findings.append(
            ok("hooks", f"{name} runs {', '.join(awake)}: a worker's commits and pushes pass them")
        )
    return findings
