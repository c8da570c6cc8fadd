"""Coding agents on the PATH."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from typing import Final

from shiftboss.doctor.findings import Finding, ok, warning

AGENTS: Final = ("claude", "codex", "opencode", "gemini")


def look_at_agents() -> list[Finding]:
    return judge_agents([name for name in AGENTS if shutil.which(name)])


def judge_agents(found: Collection[str]) -> list[Finding]:
    if found:
        return [ok("agents", f"on the PATH: {', '.join(found)}")]
    return [
        warning(
            "agents",
            f"none of {', '.join(AGENTS)} is on the PATH",
            "install one, or let workers of your own speak to the bus",
        )
    ]
