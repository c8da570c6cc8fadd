"""Which CI runs of a commit count, and which names mean the same job.

One commit can have many runs: a push to each branch, a pull request, a tag, a run that somebody
started by hand. Only runs of the branch in question, for the events of the policy, say something
about the work. A worker can start any of the others until one is green.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from shiftboss.protocol.ci import CiDemand

PULL_REQUEST: Final = "pull_request"

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class CiRunFacts(Protocol):
    """What is common to a run in a report and to its row on a forge."""

    @property
    def workflow(self) -> str | None: ...
    @property
    def event(self) -> str | None: ...
    @property
    def branch(self) -> str | None: ...
    @property
    def state(self) -> str: ...


R = TypeVar("R", bound=CiRunFacts)


def counts(run: CiRunFacts, demand: CiDemand) -> bool:
    """Whether the run says something about the commit on the branch of the demand.

    The local runner has neither events nor branches. Forgejo and Gitea do not name the branch of a
    pull request, only its number; there, no branch has such a name in a run of a pull request.
    """
    if run.event is not None and run.event not in demand.policy.events:
        return False
    if run.branch is None or run.branch == demand.branch:
        return True
    names_number = not run.branch or run.branch.startswith("#")
    return run.event == PULL_REQUEST and demand.policy.provider == "forgejo" and names_number


def newest_runs(runs: Iterable[R]) -> list[R]:
    """The newest run of every workflow, event and branch; `runs` are newest first.

    Pull requests of one branch can have different target branches, and their runs look the same.
    So a newer run of a pull request replaces only one that was cancelled or has succeeded.
    """
    newest: list[R] = []
    seen: set[tuple[str | None, str | None, str | None]] = set()
    for run in runs:
        key = (run.workflow, run.event, run.branch)
        is_replaced = run.event != PULL_REQUEST or run.state in ("success", "cancelled", "skipped")
        if key in seen and is_replaced:
            continue
        seen.add(key)
        newest.append(run)
    return newest


def why_not_counted(run: CiRunFacts, demand: CiDemand) -> str:
    """Worded to follow the number of the run."""
    if run.event is not None and run.event not in demand.policy.events:
        return f"was started by {run.event}"
    return f"ran on {run.branch or 'a tag'}"


def job_key(name: str) -> str:
    """Names with the same key mean the same job. Only A to Z are compared without case: other
    letters have look-alikes, such as the Kelvin sign, whose lower case is an ordinary k."""
    return name.strip(string.whitespace).translate(_LOWER)
