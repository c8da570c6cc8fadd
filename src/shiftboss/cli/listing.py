"""The list of swarms, page by page."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.cli.client import Client, parsed

PAGE_SWARMS_MAX: Final = 200


def swarm_pages(client: Client, limit: int | None) -> list[bytes]:
    """The server's pages up to so many swarms, or all."""
    pages: list[bytes] = []
    left, before = limit, None
    while True:
        wanted = PAGE_SWARMS_MAX if left is None else min(left, PAGE_SWARMS_MAX)
        query = {"limit": str(wanted)} | ({"before": before} if before else {})
        pages.append(client.get("/swarms", query))
        before = parsed(pages[-1], "next_before")["next_before"]
        left = None if left is None else left - wanted
        if before is None or left == 0:
            return pages


def joined(pages: list[bytes]) -> dict[str, Any]:
    """Pages as one answer of the same shape."""
    listings = [parsed(page, "swarms") for page in pages]
    return {
        "swarms": [swarm for listing in listings for swarm in listing["swarms"]],
        "next_before": listings[-1]["next_before"],
    }
