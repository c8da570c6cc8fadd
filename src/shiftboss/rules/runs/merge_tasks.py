"""Tasks that a landing makes: two accepted pieces of work that do not fit together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

MERGES_MAX: Final = 3
_SUFFIX: Final = re.compile(r"-merge-([1-9][0-9]?)$")


def original_of(bead_id: str) -> str:
    """The task of the plan that a merge task belongs to; itself for a task of the plan."""
    return _SUFFIX.sub("", bead_id)


def is_merge(bead_id: str) -> bool:
    return _SUFFIX.search(bead_id) is not None


def next_merge(bead_id: str, statuses: Mapping[str, str]) -> str | None:
    """The merge task that is to bring a task in: one that was not begun, or a new one; None when
    the task has had enough of them."""
    original = original_of(bead_id)
    for number in range(1, MERGES_MAX + 1):
        name = f"{original}-merge-{number}"
        if statuses.get(name, "open") == "open":
            return name
    return None


def merge_under_way(bead_id: str, statuses: Mapping[str, str]) -> bool:
    """Whether somebody is at it, so that the task itself has to wait."""
    names = [f"{original_of(bead_id)}-merge-{number}" for number in range(1, MERGES_MAX + 1)]
    return any(statuses.get(name) in ("queued", "active") for name in names)


def merge_description(
    commit: str, target: str, paths: Sequence[str], theirs: Sequence[str], output: str
) -> str:
    """What the worker of a merge task has to do. `theirs` tell of the other side, one line each:
    its task, its commit and its receipt."""
    lines = [
        f"Accepted work does not fit on {target} any more. Bring it there:",
        f"1. git merge {commit}",
        "2. Resolve it so that both sides keep what they do. Commit the merge.",
    ]
    lines += [f"In conflict: {path}" for path in paths[:50]]
    lines += [f"The other side: {one}" for one in theirs[:20]]
    if output:
        lines += ["Merged, this fails:", output[-3000:]]
    return "\n".join(lines)
