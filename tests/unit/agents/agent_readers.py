"""Readers of agents' output, and recorded output of agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shiftboss.agents.claude.output import ClaudeOutput
from shiftboss.agents.codex.output import CodexOutput
from shiftboss.agents.command import CommandOutput
from shiftboss.agents.gemini.output import GeminiOutput
from shiftboss.agents.opencode.output import OpencodeOutput
from shiftboss.agents.output_events import OutputReader
from shiftboss.protocol.plan import PlanAgent

LINES: Final = Path(__file__).parent / "agent_lines"
# When the lines were recorded.
NOW: Final = 1_794_773_600.0

READERS: Final[dict[str, Callable[[PlanAgent, Callable[[], float]], OutputReader]]] = {
    "claude": ClaudeOutput,
    "codex": CodexOutput,
    "command": CommandOutput,
    "gemini": GeminiOutput,
    "opencode": OpencodeOutput,
}


def reader_of(kind: str, **members: Any) -> OutputReader:
    return READERS[kind](PlanAgent(kind=kind, **members), lambda: NOW)
