"""shiftboss notify: the notifications, their channels, and another attempt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.table import Column, Table

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.discovery import serve_command
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.common.times import ago, now
from shiftboss.errors import ShiftbossError

notify = typer.Typer(
    help="Show the notifications and their channels, try them out, send again.",
    no_args_is_help=True,
)

Channel = Annotated[
    str | None, typer.Argument(metavar="CHANNEL", help="A channel. Default: all of them.")
]


class State(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"
    DROPPED = "dropped"


class NotTaken(ShiftbossError):
    code = "notification_not_taken"
    title = "A channel did not take the notification"


@notify.command("list")
@server_command(operator=True)
def list_notifications(
    session: ServerSession,
    state: Annotated[State | None, typer.Option("--state", help="Only those in a state.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=500, help="Show at most N, newest first.")
    ] = 50,
) -> Output:
    """List the notifications that wait, were sent, or could not be sent (operator)."""
    members: dict[str, Any] = {} if state is None else {"state": state.value}
    document = session.call_as_operator("list_notifications", DEFAULT_SWARM, limit=limit, **members)

    def view() -> None:

        answer = parse_answer(document, "notifications")
        if not answer["notifications"]:
            print_line("there are no notifications")
            return
        show(notifications_table(answer["notifications"], now()))
        failed = [each["number"] for each in answer["notifications"] if each["state"] == "failed"]
        if failed:
            print_line(f"to send one again: shiftboss notify retry {failed[0]}")

    return Output(document, view)


@notify.command()
@server_command(operator=True)
def channels(session: ServerSession) -> Output:
    """List the channels, and what is wrong with them (operator)."""
    document = session.call_as_operator("list_channels", DEFAULT_SWARM)

    def view() -> None:

        answer = parse_answer(document, "channels")
        if answer["channels"]:
            show(channels_table(answer["channels"]))
        for line in channel_lines(answer):
            print_line(line)

    return Output(document, view)


@notify.command("test")
@server_command(operator=True)
def send_test(session: ServerSession, channel: Channel = None) -> Output:
    """Send a test by one channel or by all, and show the result (operator)."""
    members = {} if channel is None else {"channel": channel}
    document = session.call_as_operator("send_test_notification", DEFAULT_SWARM, **members)
    answer = parse_answer(document, "results")
    failed = [each["channel"] for each in answer["results"] if each["error"] is not None]

    def view() -> None:
        for each in answer["results"]:
            result = "taken" if each["error"] is None else f"not taken: {each['error']}"
            print_line(f"{each['channel']}: {result} ({each['milliseconds']} ms)")
        if not answer["results"]:
            print_line("there are no channels; docs/how-to.md says how to set one up")

    error = None
    if failed:
        error = NotTaken(
            f"not taken by {', '.join(failed)}", hint="`shiftboss notify channels` shows them"
        )
    return Output(document, view, error)


@notify.command()
@server_command(operator=True)
def retry(
    session: ServerSession,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="The number of the notification.")
    ],
    channel: Annotated[
        str | None, typer.Option("--channel", metavar="CHANNEL", help="Only this channel.")
    ] = None,
) -> Output:
    """Send a notification again that could not be sent (operator)."""
    members = {} if channel is None else {"channel": channel}
    document = session.call_as_operator(
        "retry_notification", DEFAULT_SWARM, number=number, **members
    )

    def view() -> None:
        retried = parse_answer(document, "retried")["retried"]
        text = f"notification {number} is sent again" if retried else "nothing has failed"
        print_line(text)

    notes = [] if not session.is_offline else [f"it is sent when a server runs: {serve_command()}"]
    return Output(document, view, notes=notes)


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
