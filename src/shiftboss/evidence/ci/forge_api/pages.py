"""Reading the lists of a forge to their end.

A forge may send fewer rows than we ask for, so a short page says nothing about the end. The end is
an empty page, or the total or the link to the next page that the forge declares.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import urlencode

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.forge_api.access import Access
from shiftboss.evidence.ci.forge_api.http import ForgeHttp, ForgeResponse
from shiftboss.evidence.ci.forge_api.rows import rows_in

PAGES_MAX: Final = 20

Row = dict[str, Any]


class ForgeList:
    """One list. `members` are the names that the forges give it in the body. Without
    `trusts_total`, only an empty page is the end."""

    def __init__(
        self,
        http: ForgeHttp,
        access: Access,
        path: str,
        query: dict[str, str],
        *members: str,
        trusts_total: bool = True,
    ) -> None:
        self._http = http
        self._access = access
        self._path = path
        self._query = query
        self._members = members
        self._trusts_total = trusts_total
        # Whether the forge has the list at all. Known after the first page.
        self.exists = True

    async def pages(self) -> AsyncGenerator[list[Row], None]:
        """The rows page by page, each row once: rows move to the next page while we read.

        Raises CiUnavailable if the list is too long, or ends before all declared rows were sent:
        an unseen run may be red.
        """
        seen: dict[str, Row] = {}
        for page in range(1, PAGES_MAX + 1):
            answer = await self._read(page)
            if answer is None and page == 1:
                self.exists = False
                return
            body = answer.body if answer is not None else None
            new = {_key(row): row for row in rows_in(body, *self._members)}
            new = {key: row for key, row in new.items() if key not in seen}
            seen |= new
            yield list(new.values())
            total = _declared_total(body)
            if not new or (self._trusts_total and _is_last(answer, total, len(seen))):
                if self._trusts_total and total is not None and total > len(seen):
                    raise self._unreadable(f"shows {len(seen)} of {total} rows")
                return
        raise self._unreadable(f"has more than {len(seen)} rows, too many to read")

    async def all(self) -> list[Row] | None:
        """None if there is no such list."""
        rows = [row async for page in self.pages() for row in page]
        return rows if self.exists else None

    async def _read(self, page: int) -> ForgeResponse | None:
        query = self._query | ({"page": str(page)} if page > 1 else {})
        return await self._http.json(self._access, f"{self._path}?{urlencode(query)}")

    def _unreadable(self, what: str) -> CiUnavailable:
        return CiUnavailable(
            f"{self._path} of {self._access.host} {what}",
            reason="answer",
            retry_after_seconds=60,
            hint="delete runs that are not needed, or push a new commit, which has its own runs",
        )


def _is_last(answer: ForgeResponse | None, total: int | None, seen: int) -> bool:
    """Whether the forge says that nothing follows."""
    if answer is not None and answer.has_next is not None:
        return not answer.has_next
    return total is not None and seen >= total


def _declared_total(body: Any) -> int | None:
    total = body.get("total_count") if isinstance(body, dict) else None
    return total if isinstance(total, int) else None


def _key(row: Row) -> str:
    return repr(row["id"]) if isinstance(row.get("id"), int) else repr(sorted(row.items()))
