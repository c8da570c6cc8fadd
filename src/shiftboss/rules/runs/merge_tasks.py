"""Merge tasks, which a landing creates when accepted work conflicts with the target branch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

MERGES_MAX: Final = 3
_SUFFIX: Final = re.compile(r"-merge-([1-9][0-9]?)$")


def original_of(bead_id: str) -> str:
    """The task of the plan that a merge task is for. A task of the plan is its own original."""
    return _SUFFIX.sub("", bead_id)


def is_merge_task(bead_id: str) -> bool:
    return _SUFFIX.search(bead_id) is not None


def merge_tasks_of(bead_id: str) -> list[str]:
    """The ids that the merge tasks of a task can have."""
    return [f"{original_of(bead_id)}-merge-{number}" for number in range(1, MERGES_MAX + 1)]


def next_merge_task(bead_id: str, statuses: Mapping[str, str]) -> str | None:
    """The id of the merge task to use for a task: one that has not started, or a new one. None if
    the task has used up its merge tasks."""
    for name in merge_tasks_of(bead_id):
        if statuses.get(name, "open") == "open":
            return name
    return None


def is_merge_active(bead_id: str, statuses: Mapping[str, str]) -> bool:
    """Whether a merge task is queued or active, so that the task itself must wait."""
    return any(statuses.get(name) in ("queued", "active") for name in merge_tasks_of(bead_id))


def merge_description(
    commit: str, target: str, paths: Sequence[str], theirs: Sequence[str], output: str
) -> str:
    """The instructions of a merge task. `theirs` describes the conflicting work, one line each: its
    task, its commit and its receipt."""
    lines = [
        f"Accepted work no longer merges into {target}. Merge it:",
        f"1. git merge {commit}",
        "2. Resolve the conflicts so that both sides keep working. Commit the merge.",
    ]
    lines += [f"Conflict: {path}" for path in paths[:50]]
    lines += [f"The other side: {line}" for line in theirs[:20]]
    if output:
        lines += ["After the merge, this fails:", output[-3000:]]
    return "\n".join(lines)
