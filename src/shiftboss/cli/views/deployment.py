"""The servers of a deployment and what they share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.table import Column, Table

from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.common.times import ago

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
    """One line for `status`, if the servers need somebody's attention."""
    found = [
        each for name in ("reasons", "warnings", "differences") for each in ready.get(name, ())
    ]
    serious = [each for each in found if each.get("severity") != "information"]
    if not serious:
        return None
    more = f" (and {len(serious) - 1} more)" if len(serious) > 1 else ""
    return f"servers: {serious[0]['detail']}{more}; details: shiftboss servers"


def warning_lines(ready: Members) -> Iterator[str]:
    """One line each for `status`: what does not keep the server from its work."""
    for warning in ready.get("warnings") or ():
        yield f"{warning['name']}: {warning['detail']}; details: {warning['todo']}"


def _with_todo(finding: Members) -> str:
    return "; ".join(filter(None, (finding.get(name) for name in ("detail", "todo", "command"))))
