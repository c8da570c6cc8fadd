"""The line to the server: one operation, its members, its answer."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any


class RefusedError(Exception):
    """The server's problem document."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


def ask(address: str, operation: str, **members: object) -> dict[str, Any]:
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


def events(address: str, kinds: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """What has happened so far, in its order: kind and data."""
    url = f"{address}/swarm/default/events?follow=false"
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
        text = response.read().decode()
    found = []
    for block in text.split("\n\n"):
        said = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if said.get("event") in kinds:
            found.append((said["event"], json.loads(said["data"])))
    return found
