"""Calls of the bus: one operation each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shiftboss.cli.client import Client, parsed
from shiftboss.cli.connection import connected

TASKS_PER_PAGE_MAX = 500


def call(client: Client, operation: str, swarm_id: str, **members: object) -> bytes:
    return client.post(f"/bus/{operation}", {"swarm_id": swarm_id, **members})


def ask(
    server: str,
    token_file: Path | None,
    operation: str,
    swarm_id: str,
    *,
    as_json: bool,
    **members: object,
) -> bytes:
    """The answer of a command that makes one call."""
    with connected(server, token_file, as_json=as_json) as client:
        return call(client, operation, swarm_id, **members)


def task_pages(client: Client, swarm_id: str, limit: int | None) -> list[bytes]:
    """The server's pages up to so many tasks, or all."""
    pages: list[bytes] = []
    left, after = limit, ""
    while True:
        wanted = TASKS_PER_PAGE_MAX if left is None else min(left, TASKS_PER_PAGE_MAX)
        pages.append(call(client, "list_tasks", swarm_id, after=after, limit=wanted))
        next_after = parsed(pages[-1], "next_after")["next_after"]
        left = None if left is None else left - wanted
        if next_after is None or left == 0:
            return pages
        after = next_after


def joined_tasks(pages: list[bytes]) -> dict[str, Any]:
    """Pages as one answer of the same shape."""
    listings = [parsed(page, "tasks") for page in pages]
    return {
        "tasks": [task for listing in listings for task in listing["tasks"]],
        "next_after": listings[-1]["next_after"],
    }
