"""Reading the server's receipts, and the key that verifies them."""

from __future__ import annotations

from shiftboss.cli.common.client import Client, parse_answer
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.pages import bus_pages


def receipt_pages(client: Client, limit: int | None) -> list[bytes]:
    """The receipts of all swarms."""
    return bus_pages(client, "list_receipts", DEFAULT_SWARM, limit)


def public_key_of(client: Client) -> str:
    """The key that verifies the server's receipts. It comes with every list of them."""
    pem: str = parse_answer(receipt_pages(client, 1)[0], "public_key")["public_key"]
    return pem
