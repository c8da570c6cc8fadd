"""Rows in which Forgejo left the commit out, as it sometimes does.

The statuses of the commit name its runs; without them, a row of the branch, made lately while the
commit is the branch's tip, is likely to be the commit's. Either is enough to go on waiting, and
never enough to pass: whoever can push can write a status, and name an older run in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from shiftboss.evidence.ci.rows import Row
from shiftboss.evidence.ci.statuses import Status

RECENT: Final = timedelta(hours=1)


def likely_rows(rows: Sequence[Row], branch: str, sha: str, tip: Any, today: datetime) -> list[Row]:
    """`tip` is what the forge says about the branch."""
    commit = tip.get("commit") if isinstance(tip, dict) else None
    if not isinstance(commit, dict) or commit.get("id") != sha:
        return []
    return [row for row in rows if row.branch == branch and _is_recent(row, today)]


def adopted(rows: Sequence[Row], statuses: Collection[Status]) -> list[Row]:
    runs = {status.run for status in statuses}
    return [row for row in rows if row.number in runs]


def _is_recent(row: Row, today: datetime) -> bool:
    return row.created_at is not None and today - row.created_at < RECENT
