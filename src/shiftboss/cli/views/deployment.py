"""The servers of a deployment and what they share."""

from __future__ import annotations

from rich.table import Column, Table

from shiftboss.cli.views.tables import Members, cell, plain_table


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
