"""Rows in which Forgejo left the commit out, as it sometimes does.

The statuses of the commit name its runs, which is as good as the row itself. Without them a row of
the branch, made lately while the commit is the branch's tip, is likely to be the commit's: enough
to go on waiting, and never enough to pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from shiftboss.evidence.ci.rows import Row
from shiftboss.evidence.ci.statuses import Status

RECENT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Nameless:
    rows: list[Row]
    are_proven: bool

    @classmethod
    def likely(
        cls, rows: Sequence[Row], branch: str, sha: str, tip: Any, today: datetime
    ) -> Nameless:
        """`tip` is what the forge says about the branch."""
        commit = tip.get("commit") if isinstance(tip, dict) else None
        if not isinstance(commit, dict) or commit.get("id") != sha:
            return cls([], are_proven=False)
        return cls(
            [row for row in rows if row.branch == branch and _is_recent(row, today)],
            are_proven=False,
        )


def adopted(rows: Sequence[Row], statuses: Collection[Status]) -> list[Row]:
    runs = {status.run for status in statuses}
    return [row for row in rows if row.number in runs]


def _is_recent(row: Row, today: datetime) -> bool:
    return row.created_at is not None and today - row.created_at < RECENT
