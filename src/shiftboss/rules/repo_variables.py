"""How a job of the local runner learns where the repos are that its own is built on."""

from __future__ import annotations

import re

PREFIX = "SHIFTBOSS_REPO_"


def variable_of(repo: str) -> str:
    """`adl-examples` is in SHIFTBOSS_REPO_ADL_EXAMPLES."""
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", repo.upper())
