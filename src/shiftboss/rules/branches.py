"""What can be the name of a branch."""

from __future__ import annotations

import re
from typing import Final

BRANCH_BYTES_MAX: Final = 200
# What git forbids in the name of a ref (git check-ref-format); a dash would make it an option.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|\Z)|\.\Z|/\Z")


def is_branch_name(name: str) -> bool:
    return (
        0 < len(name.encode(errors="replace")) <= BRANCH_BYTES_MAX
        and not name.startswith(("-", "/", "."))
        and name not in ("@", "HEAD")
        and _FORBIDDEN.search(name) is None
    )
