"""Notifications and their channels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.table import Column, Table

from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.common.times import ago

_STATES: Final = {"pending": "yellow", "sent": "green", "failed": "bold red", "dropped": ""}


def notifications_table(notifications: list[Members], at: datetime) -> Table:
    names = ("NUMBER", "WHEN", "CHANNEL", "STATE", "TRIES")
    table = plain_table(*(Column(name, no_wrap=True) for name in names), "TITLE", "ERROR")
    for each in notifications:
        table.add_row(
            cell(each["number"]),
            cell(ago(each["at"], at)),
            cell(each["channel"]),
            cell(each["state"], _STATES[each["state"]]),
            cell(each["attempts"]),
            cell(each["title"]),
            cell(each["error"] or ""),
        )
    return table


def channels_table(channels: list[Members]) -> Table:
    names = ("CHANNEL", "KIND", "TARGET", "PENDING", "FAILED")
    table = plain_table(*(Column(name, no_wrap=True) for name in names), "PROBLEM")
    for each in channels:
        problem = each["problem"] or each["last_error"] or ""
        table.add_row(
            cell(each["name"]),
            cell(each["kind"]),
            cell(each["target"]),
            cell(each["pending"]),
            cell(each["failed"], "bold red" if each["failed"] else ""),
            cell(problem, "bold red" if each["problem"] else ""),
        )
    return table


def channel_lines(answer: Members) -> Iterator[str]:
    if not answer["channels"]:
        yield "there are no channels; docs/how-to.md says how to set one up"
    if answer["problem"] is not None:
        yield f"the settings are not used: {answer['problem']}"
    if answer["source"] is not None:
        yield f"settings: {answer['source']}"
    if answer["quiet"] is not None:
        yield f"quiet time: {answer['quiet']}"
