"""What can be the name of a branch."""

from __future__ import annotations

import re
from typing import Final

BRANCH_BYTES_MAX: Final = 200
# What git forbids in the name of a ref (git check-ref-format); a dash would make it an option.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|\Z)|\.\Z|/\Z")


def task_branch(task_id: str) -> str:
    """Where the work on a task of a plan is done."""
    return f"shiftboss/{task_id}"


def ref_part(task_id: str) -> str:
    """A task's id as a part of a ref. Ids may have colons and dots where git does not want them;
    those are written by their numbers, so that two tasks never share a name."""
    part = task_id.replace(":", "%3A")
    return part if is_branch_name(part) else part.replace(".", "%2E")


def is_branch_name(name: str) -> bool:
    return (
        0 < len(name.encode(errors="replace")) <= BRANCH_BYTES_MAX
        and not name.startswith(("-", "/", "."))
        and name not in ("@", "HEAD")
        and _FORBIDDEN.search(name) is None
    )
