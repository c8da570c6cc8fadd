"""Tokens as a table, without their secrets."""

from __future__ import annotations

from rich.table import Table

from shiftboss.cli.common.tables import Members, cell, column_of, plain_table
from shiftboss.cli.common.times import now, span


def tokens_table(tokens: list[Members]) -> Table:
    table = plain_table(column_of(30, "NAME"), "ROLE", "LIMITS", "ENDS", "BY", "ID")
    for token in tokens:
        table.add_row(
            cell(token["name"]),
            cell(f"{token['role']}, session" if token.get("is_session") else token["role"]),
            cell(limits_text(token)),
            cell(_end_text(token)),
            cell(token["created_by"]),
            cell(token["token_id"]),
        )
    return table


def limits_text(token: Members) -> str:
    limits = [
        f"{kind} {token[member]}"
        for kind, member in (("swarm", "swarm_id"), ("task", "bead_id"), ("worker", "worker"))
        if token[member] is not None
    ]
    return ", ".join(limits) or "no limits"


def _end_text(token: Members) -> str:
    if token["status"] != "valid":
        return str(token["status"])
    if token["expires_at"] is None:
        return "never"
    return f"in {span(token['expires_at'] / 1000 - now().timestamp())}"
