"""Reads the output of Codex with `exec --json`, with its error output mixed in."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from shiftboss.agents.output_events import AgentActivity, Allowed, Denied, Finished, Signal, ToolUse
from shiftboss.agents.output_lines import (
    brief,
    count,
    describe_input,
    find_rate_limit,
    member,
    message,
    objects,
    parse_object,
    text,
)
from shiftboss.agents.usage_meter import UsageMeter
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.tasks.permission_denials import find_denial

LINE_CHARACTERS_MAX: Final = 20_000
REFUSAL_LINES_MAX: Final = 40
# `... Command blocked by PreToolUse hook: REASON. Command: COMMAND`; the reason may have several
# lines.
_BLOCKED: Final = re.compile(r"(?:Command|Tool call) blocked by PreToolUse hook: ")
_REFUSED_CALL: Final = re.compile(r"\. (Command|Tool): ")
_SHELL_PREFIX: Final = re.compile(r"^\S*/(?:bash|zsh|sh) -l?c ")


class CodexOutput:
    """Tokens are reported at the end of a turn. The context is not reported at all: Codex compacts
    it by itself. Refusals by a hook are only in the error output, outside of the JSON."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._last_message = ""
        self._limited = False
        self._has_finished = False
        self._refusal_lines: list[str] = []

    def read(self, line: str) -> list[Signal]:
        event = parse_object(line)
        if event is None:
            return list(self._error_line(line[:LINE_CHARACTERS_MAX]))
        return [*self._take_refusal(), *self._event(event)]

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        """Errors are read here as well, in case they were not mixed into the output."""
        signals = [signal for line in error_tail.splitlines() for signal in self._error_line(line)]
        signals += self._take_refusal()
        if exit_code != 0 and not self._has_finished:
            signals += self._limit(error_tail)
        return signals

    def _event(self, event: dict[str, Any]) -> Iterator[Signal]:
        kind = text(event.get("type"))
        if kind == "item.started":
            tool, operation = _tool_use(event.get("item")) or ("", None)
            if line := brief(f"{tool} {operation or ''}"):
                yield ToolUse(line)
        elif kind == "item.completed":
            yield from self._item(event.get("item"))
        elif kind == "turn.completed":
            yield self._usage(event.get("usage"))
            yield self._end(True, self._last_message)
        elif kind in ("turn.failed", "error"):
            error = text(member(event, "error", "message")) or text(event.get("message"))
            yield from self._error(error, kind == "turn.failed")

    def _error_line(self, line: str) -> Iterator[Signal]:
        start = _BLOCKED.search(line)
        if start is not None:
            yield from self._take_refusal()
            self._refusal_lines = [line[start.end() :]]
        elif self._refusal_lines:
            self._refusal_lines.append(line)
        has_too_many = len(self._refusal_lines) > REFUSAL_LINES_MAX
        if has_too_many or (self._refusal_lines and _REFUSED_CALL.search(line)):
            yield from self._take_refusal()

    def _take_refusal(self) -> Iterator[Signal]:
        """The refusal whose lines were read so far, if any."""
        lines, self._refusal_lines = self._refusal_lines, []
        if not lines:
            return
        reason, *call = _REFUSED_CALL.split("\n".join(lines), maxsplit=1)
        if not call:
            yield Denied("a tool", message(reason))
        elif call[0] == "Tool":
            yield Denied(brief(call[1]) or "a tool", message(reason))
        else:
            yield Denied("Bash", message(reason), brief(call[1]))

    def _item(self, item: object) -> Iterator[Signal]:
        kind = text(member(item, "type"))
        if kind == "agent_message":
            self._last_message = text(member(item, "text"))
            yield from _activity(self._last_message)
        elif kind == "error":
            yield from self._limit(text(member(item, "message")))
        elif use := _tool_use(item):
            yield _outcome(*use, item)

    def _usage(self, usage: object) -> Signal:
        """The numbers are those of the whole thread so far."""
        meter = self._meter
        meter.cached_tokens = count(member(usage, "cached_input_tokens"))
        meter.input_tokens = max(count(member(usage, "input_tokens")) - meter.cached_tokens, 0)
        meter.output_tokens = count(member(usage, "output_tokens"))
        return meter.usage()

    def _error(self, error: str, failed: bool) -> Iterator[Signal]:
        """After an `error` such as `Reconnecting... 1/5`, Codex may try again."""
        yield from self._limit(error)
        if failed:
            yield self._end(False, error)
        elif error:
            yield AgentActivity(brief(error))

    def _limit(self, error: str) -> list[Signal]:
        limit = None if self._limited else find_rate_limit(error, self._now())
        if limit is None or error.startswith("Reconnecting"):
            return []
        self._limited = True
        return [limit]

    def _end(self, ok: bool, final_message: str) -> Finished:
        self._has_finished = True
        return Finished(ok, message(final_message))


def _activity(content: str) -> Iterator[Signal]:
    if line := brief(content):
        yield AgentActivity(line)


def _tool_use(item: object) -> tuple[str, str | None] | None:
    """The name of the tool that an item uses, and what it is to do; None for other items."""
    kind = text(member(item, "type"))
    if kind == "command_execution":
        return "Bash", _command(text(member(item, "command")))
    if kind == "file_change":
        paths = [text(change.get("path")) for change in objects(member(item, "changes"))]
        return "apply_patch", describe_input({"path": " ".join(paths)})
    if kind == "mcp_tool_call":
        return brief(f"{text(member(item, 'server'))}.{text(member(item, 'tool'))}"), None
    if kind == "web_search":
        return "web_search", describe_input(item)
    return None


def _outcome(tool: str, operation: str | None, item: object) -> Signal:
    status = text(member(item, "status"))
    output = text(member(item, "aggregated_output")) or text(member(item, "error", "message"))
    denial = find_denial(output, tool) if status in ("failed", "declined") else None
    if denial is not None:
        return Denied(denial.tool, denial.error, operation)
    if status == "declined":
        return Denied(tool, brief(output) or f"{tool} was not permitted", operation)
    return Allowed(tool, operation)


def _command(command: str) -> str:
    """Without the shell that Codex wraps it in."""
    return brief(_SHELL_PREFIX.sub("", command[:LINE_CHARACTERS_MAX], count=1).strip("\"'"))
