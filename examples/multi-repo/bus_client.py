"""A small HTTP client for the server: operations of the bus, and events."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any


class RefusedError(Exception):
    """The server has refused a request; `problem` is its problem document."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


def call_bus(address: str, operation: str, **members: object) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - http, to our own server
        f"{address}/bus/{operation}",
        json.dumps(members).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        with error:
            raise RefusedError(json.load(error)) from None


def stored_events(address: str, kinds: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """The events so far, in order: kind and data."""
    url = f"{address}/swarm/default/events?follow=false"
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
        text = response.read().decode()
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields.get("event") in kinds:
            events.append((fields["event"], json.loads(fields["data"])))
    return events
