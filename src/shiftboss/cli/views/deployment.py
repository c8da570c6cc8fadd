"""The servers of a deployment and what they share: keys, policies, and tokens without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.table import Column, Table

from shiftboss.cli.common.tables import Members, cell, column_of, plain_table
from shiftboss.cli.common.times import ago, now, span

_STATES: Final = {"living": "green", "silent": "bold red", "stopped": ""}


def keys_table(keys: list[Members]) -> Table:
    columns = [Column(name, no_wrap=True) for name in ("KEY", "ADDED", "BY")]
    table = plain_table(*columns, "STATE")
    for key in keys:
        state = "signs"
        if key.get("retired_at"):
            state = f"retired at {key['retired_at']} by {key['retired_by']}"
        table.add_row(
            cell(key["key_id"]), cell(key["added_at"]), cell(key["added_by"]), cell(state)
        )
    return table


def servers_table(servers: list[Members], at: datetime) -> Table:
    names = ("ADDRESS", "HOST", "VERSION", "STATE", "SEEN", "DOES", "KEY")
    table = plain_table(*(Column(name, no_wrap=True) for name in names))
    for server in servers:
        does = [name for name in ("leads", "verifies") if server[name]]
        table.add_row(
            cell(server["address"]),
            cell(server["host"]),
            cell(server["version"]),
            cell(server["state"], _STATES[server["state"]]),
            cell(ago(server["seen_at"], at)),
            cell(", ".join(does)),
            cell(server["key_id"]),
        )
    return table


def deployment_lines(answer: Members) -> Iterator[str]:
    for reason in answer["reasons"]:
        yield f"not ready ({reason['name']}): {_with_todo(reason)}"
    for degraded in answer.get("warnings", ()):
        yield f"warning ({degraded['name']}): {_with_todo(degraded)}"
    for difference in answer["differences"]:
        yield f"{difference['severity']}: {_with_todo(difference)}"


def difference_line(ready: Members) -> str | None:
    """One line for `status`, if the servers need attention."""
    problems = [
        each for name in ("reasons", "warnings", "differences") for each in ready.get(name, ())
    ]
    serious = [each for each in problems if each.get("severity") != "information"]
    if not serious:
        return None
    more = f" (and {len(serious) - 1} more)" if len(serious) > 1 else ""
    return f"servers: {serious[0]['detail']}{more}; details: shiftboss servers"


def warning_lines(ready: Members) -> Iterator[str]:
    """One line each for `status`: problems that do not stop the server."""
    for warning in ready.get("warnings") or ():
        yield f"{warning['name']}: {warning['detail']}; details: {warning['todo']}"


def _with_todo(finding: Members) -> str:
    return "; ".join(filter(None, (finding.get(name) for name in ("detail", "todo", "command"))))


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
