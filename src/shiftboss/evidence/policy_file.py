"""Reading the policy file. What it says of folders is meant from where it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shiftboss.errors import InvalidPolicy
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.policy_text import read_policy

POLICY_FILE: Final = "shiftboss.yaml"
POLICY_BYTES_MAX: Final = 4 * 1024 * 1024


def load_policy(path: Path) -> Policy:
    """Raises InvalidPolicy with every problem: its file, line and key."""
    try:
        with path.open("rb") as file:
            content = file.read(POLICY_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise InvalidPolicy(f"{path} cannot be read: {error.strerror}", field="policy") from error
    except UnicodeDecodeError as error:
        raise InvalidPolicy(f"{path} is not UTF-8: {error.reason}", field="policy") from error
    if len(content) > POLICY_BYTES_MAX:
        raise InvalidPolicy(f"{path} is longer than {POLICY_BYTES_MAX} bytes", field="policy")
    policy = read_policy(text, str(path))
    folder = path.resolve().parent
    repos = {
        name: repo.model_copy(update={"path": str((folder / repo.path).resolve())})
        if repo.path is not None
        else repo
        for name, repo in policy.repos.items()
    }
    _check_paths(path, repos)
    return policy.model_copy(update={"repos": repos})


def _check_paths(path: Path, repos: dict[str, RepoPolicy]) -> None:
    """Two names for one folder would be two locks for one repo."""
    known: dict[str, str] = {}
    for name, repo in repos.items():
        if repo.path is not None and (first := known.setdefault(repo.path, name)) != name:
            problem = f"{path}: repos.{name}.path: is the folder of {first!r} as well"
            raise InvalidPolicy(problem, field="policy", facts={"problems": [problem]})


def default_policy_file(folder: Path) -> Path | None:
    """The one of the folder that the server is started in, if there is one."""
    path = folder / POLICY_FILE
    return path if path.is_file() else None
