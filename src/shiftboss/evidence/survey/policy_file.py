"""Reading the policy file. Relative paths in it start from its own folder."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable, InvalidPolicy, UnknownRepo
from shiftboss.evidence.mirror.repository import LONG_NAMES, Repository
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.contract.policy_file import invalid_policy, read_policy
from shiftboss.rules.documents.yaml_lines import read_yaml
from shiftboss.system.files import read_text

POLICY_FILE: Final = "shiftboss.yaml"


class PolicyText(NamedTuple):
    """The text of a policy file, and the absolute path of the file that it was read from."""

    body: str
    source: str


def read_policy_text(path: Path) -> PolicyText:
    """Raises InvalidPolicy if the file cannot be read."""
    return PolicyText(read_text(path, "policy", InvalidPolicy), str(path.absolute()))


def load_policy(path: Path) -> Policy:
    """Raises InvalidPolicy with every problem, each with its line and key."""
    return policy_of(read_policy_text(path), str(path))


def policy_of(policy_text: PolicyText, name: str | None = None) -> Policy:
    """The content of a policy; its file need not exist here. Problems name it `name`. Raises
    InvalidPolicy."""
    text, path = policy_text.body, name or policy_text.source
    policy = read_policy(text, path)
    folder = Path(policy_text.source).resolve().parent
    repos = {name: _with_full_paths(repo, folder) for name, repo in policy.repos.items()}
    shared = _shared_folders(repos)
    if shared:
        document = read_yaml(text)
        raise invalid_policy(path, [document.problem(*problem) for problem in shared])
    return policy.model_copy(update={"repos": repos})


def _with_full_paths(repo: RepoPolicy, folder: Path) -> RepoPolicy:
    """Paths are relative to the folder of the policy file. The last part of the path of a secret
    may be a link, which is replaced when the secret is."""
    files = {
        name: str(folder / Path(file).expanduser())
        for name in ("token_file", "webhook_secret_file")
        if (file := getattr(repo.ci, name)) is not None
    }
    # Missing keys are not shown as if they were in the file.
    update: dict[str, object] = {"ci": repo.ci.model_copy(update=files)} if files else {}
    if repo.path is not None:
        update["path"] = str((folder / repo.path).resolve())
    return repo.model_copy(update=update)


def _shared_folders(repos: dict[str, RepoPolicy]) -> list[tuple[tuple[str, str, str], str]]:
    """Problems with folders that have two names: one repo would have two locks."""
    first_names: dict[str, str] = {}
    return [
        (("repos", name, "path"), f"is the folder of {first!r} as well")
        for name, repo in repos.items()
        if repo.path is not None and (first := first_names.setdefault(repo.path, name)) != name
    ]


async def check_repositories(path: Path, policy: Policy) -> None:
    """Raises InvalidPolicy for existing repositories in which no task can be spawned. Missing ones
    are reported by `shiftboss doctor`."""
    document = read_yaml(read_text(path, "policy", InvalidPolicy))
    problems = []
    for name, repo in policy.repos.items():
        with contextlib.suppress(UnknownRepo, EvidenceUnavailable):
            if repo.path is not None and await Repository().has_long_names(repo.path):
                problems.append(document.problem(("repos", name, "path"), LONG_NAMES))
    if problems:
        raise invalid_policy(str(path), problems)


def default_policy_file(folder: Path) -> Path | None:
    """The policy in the folder in which the server is started, if there is one."""
    path = folder / POLICY_FILE
    return path if path.is_file() else None
