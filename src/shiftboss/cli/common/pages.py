"""Reading lists from the server, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from shiftboss.cli.common.client import Client, parse_answer

SWARMS_PER_PAGE_MAX: Final = 200
ITEMS_PER_PAGE_MAX: Final = 500


def swarm_pages(client: Client, limit: int | None) -> list[bytes]:
    """The pages with up to `limit` swarms, or with all of them."""

    def fetch(before: str, count: int) -> bytes:
        return client.get("/swarms", {"limit": count} | ({"before": before} if before else {}))

    return _pages(fetch, "next_before", limit, SWARMS_PER_PAGE_MAX)


def bus_pages(
    client: Client, operation: str, swarm_id: str | None, limit: int | None
) -> list[bytes]:
    """The pages of a list operation of the bus, with up to `limit` items or with all of them."""

    def fetch(after: str, count: int) -> bytes:
        return client.call_bus(operation, swarm_id, after=after, limit=count)

    return _pages(fetch, "next_after", limit, ITEMS_PER_PAGE_MAX)


def _pages(
    fetch: Callable[[str, int], bytes], cursor: str, limit: int | None, per_page: int
) -> list[bytes]:
    pages: list[bytes] = []
    left, position = limit, ""
    while True:
        count = per_page if left is None else min(left, per_page)
        pages.append(fetch(position, count))
        next_position = parse_answer(pages[-1], cursor)[cursor]
        left = None if left is None else left - count
        if next_position is None or left == 0:
            return pages
        position = next_position


def join_pages(pages: list[bytes], items: str) -> dict[str, Any]:
    """The pages as one answer of the same shape."""
    answers = [parse_answer(page, items) for page in pages]
    return answers[-1] | {items: [item for answer in answers for item in answer[items]]}


def join_documents(pages: list[bytes], items: str) -> bytes:
    """The pages as one JSON document. A single page stays as the server sent it."""
    return pages[0] if len(pages) == 1 else json.dumps(join_pages(pages, items)).encode()
