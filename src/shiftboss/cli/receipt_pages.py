"""The list of receipts page by page, and the key that checks them."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.cli.bus_calls import call
from shiftboss.cli.client import Client, parsed
from shiftboss.cli.options import DEFAULT_SWARM
from shiftboss.errors import ShiftbossError

RECEIPTS_PER_PAGE_MAX: Final = 500


class NoKey(ShiftbossError):
    code = "no_key"
    title = "There is no key to check with"


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
    }


def public_key_of(client: Client) -> str:
    """The key comes with a receipt, whichever that is."""
    found = parsed(receipt_pages(client, 1)[0], "receipts")["receipts"]
    if not found:
        raise NoKey(
            f"the server at {client.address} has signed no receipt yet",
            hint="its key comes with the first one",
        )
    first = found[0]
    answer = call(client, "show_receipt", first["swarm_id"], bead_id=first["bead_id"])
    pem: str = parsed(answer, "public_key")["public_key"]
    return pem
