"""A finding of the doctor: how bad it is, what it means, what to do."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]
Check = Literal[
    "server",
    "store",
    "servers",
    "keys",
    "clock",
    "disk",
    "verifiers",
    "claims",
    "webhooks",
    "notifications",
    "policy",
    "git",
    "repos",
    "hooks",
    "sandbox",
    "credentials",
    "forge",
    "runners",
    "queues",
    "claims",
    "agents",
]


class Finding(NamedTuple):
    check: Check
    level: Level
    message: str
    todo: str = ""


def ok(check: Check, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: Check, message: str, todo: str) -> Finding:
    return Finding(check, "warning", message, todo)


def problem(check: Check, message: str, todo: str) -> Finding:
    return Finding(check, "problem", message, todo)
