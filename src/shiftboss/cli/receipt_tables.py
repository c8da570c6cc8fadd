"""Receipts for people. Imported late: it needs rich."""

from __future__ import annotations

from datetime import datetime

from rich.table import Column, Table

from shiftboss.cli.handoff_tables import HASH_CHARACTERS, add_fact, facts_grid
from shiftboss.cli.tables import Members, cell, plain_table
from shiftboss.cli.times import ago_ms


def receipts_table(receipts: list[Members], at: datetime) -> Table:
    columns = [Column(name, no_wrap=True) for name in ("TASK", "SWARM", "COMMIT", "ACCEPTED")]
    table = plain_table(*columns, "TITLE")
    for one in receipts:
        table.add_row(
            cell(one["bead_id"]),
            cell(one["swarm_id"]),
            cell(one["commit"][:HASH_CHARACTERS]),
            cell(ago_ms(one["accepted_at"], at)),
            cell(one["title"]),
        )
    return table


def receipt_summary(signed: Members) -> Table:
    body = signed["receipt"]
    diff = body["diff"]
    lines = facts_grid()
    add_fact(lines, "receipt", body["receipt_id"], "bold")
    add_fact(lines, "task", f"{body['bead_id']} in {body['swarm_id']}")
    add_fact(lines, "worker", f"{body['worker']}, attempt {body['epoch']}")
    add_fact(lines, "claimed by", body["claimed_by"] or "somebody who gave no name")
    if body["summary"]:
        add_fact(lines, "summary", body["summary"])
    add_fact(lines, "repo", body["repo"])
    for name in ("branch", "base_commit", "commit", "tree", "strategy"):
        if body[name]:
            add_fact(lines, name.removesuffix("_commit"), body[name])
    files = "1 file" if diff["files_changed"] == 1 else f"{diff['files_changed']} files"
    add_fact(lines, "change", f"{files}, +{diff['lines_added']} -{diff['lines_deleted']}")
    add_fact(
        lines,
        "contract",
        f"version {body['contract_version']}, {body['contract_hash'][:HASH_CHARACTERS]}",
    )
    for one in body["waivers"]:
        words = f"{one['check']} ({one['subject']}) by {one['granted_by']}: {one['reason']}"
        add_fact(lines, "waiver", words, "yellow")
    add_fact(lines, "accepted", f"{body['accepted_at']}, claimed {body['claimed_at']}")
    add_fact(lines, "key", signed["key_id"])
    return lines
