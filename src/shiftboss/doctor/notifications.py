"""Asks the server about its channels of notifications."""

from __future__ import annotations

import json
from collections.abc import Iterator

from shiftboss.doctor.deployment import CallOperator, Members
from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.errors import ShiftbossError
from shiftboss.rules.documents.wording import pluralize


def check_notifications(call: CallOperator) -> list[Finding]:
    """An older server, or a caller who is not the operator: `check_deployment` says that."""
    try:
        answer = json.loads(call("list_channels"))
    except ShiftbossError:
        return []
    return judge_channels(answer)


def judge_channels(answer: Members) -> list[Finding]:
    findings = [
        *_file(answer),
        *(each for channel in answer["channels"] for each in _about(channel)),
    ]
    if findings or not answer["channels"]:
        return findings
    names = ", ".join(channel["name"] for channel in answer["channels"])
    return [ok("notifications", f"{pluralize(len(answer['channels']), 'channel')}: {names}")]


def _file(answer: Members) -> Iterator[Finding]:
    if answer["problem"] is not None:
        todo = "correct it, then: systemctl reload shiftboss, or start the server again"
        yield problem("notifications", answer["problem"], todo)


def _about(channel: Members) -> Iterator[Finding]:
    name = f"the channel {channel['name']} ({channel['kind']})"
    test = f"shiftboss notify test {channel['name']}"
    if channel["problem"] is not None:
        text = f"{name} cannot be used: {channel['problem']}"
        yield problem("notifications", text, f"correct it, then: {test}")
    elif channel["failed"]:
        what = pluralize(channel["failed"], "notification")
        text = f"{name} gave up on {what}: {channel['last_error']}"
        yield problem("notifications", text, f"{test}, then: shiftboss notify list --state failed")
    elif channel["last_error"] is not None:
        text = f"{name} does not take notifications now: {channel['last_error']}"
        yield warning("notifications", text, f"it is tried again; to see for yourself: {test}")
