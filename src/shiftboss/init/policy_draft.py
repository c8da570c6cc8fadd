"""The first `shiftboss.yaml` of a repository."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.init.seal import sealed

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Plain words that YAML reads as something else.
_NOT_TEXTS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
COMMENT: Final = "#"
_HEAD: Final = """\
# The policy of Shiftboss. What it does not say has a default, which
# `shiftboss policy show --effective` prints; `shiftboss policy check` looks for mistakes.
# Work on a repo that is named here counts when its CI has passed, and its tasks take turns.
"""
# A repo without jobs is not named: no CI would ever pass its commits.
_NO_JOBS: Final = """\
# Nothing was found that tests this one. Once there is something, put this in the place of `{}`:
"""
_SOME_JOB: Final = {"test": ["make test"]}


def repo_name(folder: str) -> str:
    """The name of the folder, as names of repos are."""
    return _NOT_IN_NAMES.sub("-", folder).strip("-._")[:100] or "repo"


def policy_draft(name: str, branch: str, jobs: Mapping[str, Sequence[str]]) -> str:
    if jobs:
        return sealed("".join([_HEAD, "repos:\n", *_repo(name, branch, jobs)]), COMMENT)
    example = [f"{COMMENT}{line}" for line in _repo(name, branch, _SOME_JOB)]
    return sealed("".join([_HEAD, "repos: {}\n", _NO_JOBS, *example]), COMMENT)


def _repo(name: str, branch: str, jobs: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [
        f"  {_text(name)}:\n",
        "    path: .\n",
        f"    branch: {_text(branch)}  # where accepted work lands\n",
        "    ci:\n",
        "      jobs:  # run here without a shell, in a clean checkout of the commit\n",
    ]
    for job, commands in jobs.items():
        words = ", ".join(map(_text, commands))
        lines.append(f"        {_text(job)}: {{run: [{words}]}}\n")
    return [*lines, f"      required_jobs: [{', '.join(map(_text, jobs))}]\n"]


def _text(text: str) -> str:
    """A plain word of YAML where it is one for sure, else in quotes."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text) and text.lower() not in _NOT_TEXTS
    return text if is_plain else json.dumps(text)
