"""How the tests call the bus: an operation, its fields, its answer."""

from __future__ import annotations

from typing import Any

from tests.client import Client


def ask(client: Client, operation: str, **members: object) -> dict[str, Any]:
    """The answer of an operation that must be accepted."""
    response = client.post(f"/bus/{operation}", members)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def submitted(client: Client, *bead_ids: str, **members: object) -> None:
    """Add and submit tasks."""
    for bead_id in bead_ids:
        ask(client, "add_task", bead_id=bead_id, title=f"Title of {bead_id}", **members)
        ask(client, "submit_task", bead_id=bead_id)


def task(client: Client, bead_id: str) -> dict[str, Any]:
    return ask(client, "show_task", bead_id=bead_id)


def status_of(client: Client, name: str) -> str | None:
    """The status of a worker; None when there is no such worker."""
    workers = ask(client, "get_status")["workers"]
    found: str | None = next(
        (worker["status"] for worker in workers if worker["name"] == name), None
    )
    return found
