"""Which names git accepts for branches, and the branch names of tasks."""

from __future__ import annotations

import re
from typing import Final

BRANCH_BYTES_MAX: Final = 200
# What git forbids in the name of a ref, see git check-ref-format.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|\Z)|\.\Z|/\Z")


def task_branch(task_id: str) -> str:
    """The branch for the work on a task of a plan."""
    return f"shiftboss/{task_id}"


def ref_part(task_id: str) -> str:
    """The id of a task as a part of a ref. Git forbids some of the colons and dots that an id can
    have. They are percent-encoded, so that two tasks never share a name."""
    part = task_id.replace(":", "%3A")
    return part if is_branch_name(part) else part.replace(".", "%2E")


def is_branch_name(name: str) -> bool:
    return (
        0 < len(name.encode(errors="replace")) <= BRANCH_BYTES_MAX
        # A leading dash would make it an option.
        and not name.startswith(("-", "/", "."))
        and name not in ("@", "HEAD")
        and _FORBIDDEN.search(name) is None
    )
