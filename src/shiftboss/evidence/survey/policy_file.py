"""Reading the policy file. What it says of folders is meant from where it lies."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from shiftboss.errors import EvidenceUnavailable, InvalidPolicy, UnknownRepo
from shiftboss.evidence.mirror.repository import LONG_NAMES, Repository
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.contract.policy_file import invalid, read_policy
from shiftboss.rules.documents.yaml_lines import read_yaml
from shiftboss.system.files import read_text

POLICY_FILE: Final = "shiftboss.yaml"


def load_policy(path: Path) -> Policy:
    """Raises InvalidPolicy with every problem: its file, line and key."""
    text = read_text(path, "policy", InvalidPolicy)
    policy = read_policy(text, str(path))
    folder = path.resolve().parent
    repos = {
        name: repo.model_copy(update={"path": str((folder / repo.path).resolve())})
        if repo.path is not None
        else repo
        for name, repo in policy.repos.items()
    }
    shared = _shared_folders(repos)
    if shared:
        raise invalid(str(path), [read_yaml(text).problem(*one) for one in shared])
    return policy.model_copy(update={"repos": repos})


def _shared_folders(repos: dict[str, RepoPolicy]) -> list[tuple[tuple[str, str, str], str]]:
    """Two names for one folder would be two locks for one repo."""
    known: dict[str, str] = {}
    return [
        (("repos", name, "path"), f"is the folder of {first!r} as well")
        for name, repo in repos.items()
        if repo.path is not None and (first := known.setdefault(repo.path, name)) != name
    ]


async def check_repositories(path: Path, policy: Policy) -> None:
    """Raises InvalidPolicy for repositories that are there and that no task can be spawned in.
    Those that are not there yet are the doctor's."""
    document = read_yaml(read_text(path, "policy", InvalidPolicy))
    found = []
    for name, repo in policy.repos.items():
        with contextlib.suppress(UnknownRepo, EvidenceUnavailable):
            if repo.path is not None and await Repository().has_long_names(repo.path):
                found.append(document.problem(("repos", name, "path"), LONG_NAMES))
    if found:
        raise invalid(str(path), found)


def default_policy_file(folder: Path) -> Path | None:
    """The one of the folder that the server is started in, if there is one."""
    path = folder / POLICY_FILE
    return path if path.is_file() else None
