"""The list of swarms, page by page."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.cli.common.bus_calls import call
from shiftboss.cli.common.client import Client, parsed
from shiftboss.cli.common.options import DEFAULT_SWARM

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


# The list of receipts page by page, and the key that checks them.


RECEIPTS_PER_PAGE_MAX: Final = 500


def receipt_pages(client: Client, limit: int | None) -> list[bytes]:
    """The server's pages up to so many receipts, or all. They are those of all swarms."""
    pages: list[bytes] = []
    left, after = limit, ""
    while True:
        wanted = RECEIPTS_PER_PAGE_MAX if left is None else min(left, RECEIPTS_PER_PAGE_MAX)
        pages.append(call(client, "list_receipts", DEFAULT_SWARM, after=after, limit=wanted))
        next_after = parsed(pages[-1], "next_after")["next_after"]
        left = None if left is None else left - wanted
        if next_after is None or left == 0:
            return pages
        after = next_after


def joined_receipts(pages: list[bytes]) -> dict[str, Any]:
    """Pages as one answer of the same shape."""
    listings = [parsed(page, "receipts") for page in pages]
    return {
        "receipts": [one for listing in listings for one in listing["receipts"]],
        "next_after": listings[-1]["next_after"],
        "public_key": listings[-1]["public_key"],
    }


def public_key_of(client: Client) -> str:
    """It comes with the list of receipts, also with one that is empty."""
    pem: str = parsed(receipt_pages(client, 1)[0], "public_key")["public_key"]
    return pem
