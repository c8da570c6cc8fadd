"""Reads the output of opencode with `run --format json`, including the lines of our plugin."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from shiftboss.agents.agent import REFUSED
from shiftboss.agents.output_events import AgentActivity, Allowed, Denied, Finished, Signal, ToolUse
from shiftboss.agents.output_lines import (
    SHORT_WAIT_SECONDS,
    amount,
    brief,
    count,
    describe_input,
    find_rate_limit,
    member,
    message,
    parse_object,
    text,
)
from shiftboss.agents.usage_meter import UsageMeter
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.tasks.permission_denials import find_denial

# The beginnings of refusals by our plugin and by the permission rules of opencode.
_REFUSALS: Final = (
    REFUSED,
    "The user rejected permission",
    "The user has specified a rule which prevents",
)


class OpencodeOutput:
    """Every step reports its tokens and its cost. How the run ended follows from the last message
    and the exit code."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._last_message = ""
        self._error = ""
        self._limited = False
        self._handlers: Final[dict[str, Callable[[dict[str, Any]], Iterator[Signal]]]] = {
            "text": self._text,
            "tool_use": self._tool,
            "step_finish": self._step,
            "error": self._failure,
        }

    def read(self, line: str) -> list[Signal]:
        event = parse_object(line)
        if event is None:
            return []
        if event.get("shiftboss") == "rate_limited":
            return list(self._waits(event))
        handler = self._handlers.get(text(event.get("type")))
        return [] if handler is None else list(handler(event))

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        if exit_code == 0 and not self._error:
            return [Finished(True, message(self._last_message))]
        error = self._error or error_tail
        limit = None if self._limited else find_rate_limit(error, self._now())
        return [*([limit] if limit else []), Finished(False, message(error[-2000:]))]

    def _text(self, event: dict[str, Any]) -> Iterator[Signal]:
        self._last_message = text(member(event, "part", "text"))
        if activity := brief(self._last_message):
            yield AgentActivity(activity)

    def _tool(self, event: dict[str, Any]) -> Iterator[Signal]:
        state = member(event, "part", "state")
        tool = brief(text(member(event, "part", "tool"))) or "a tool"
        operation = describe_input(member(state, "input"))
        error = text(member(state, "error")) if member(state, "status") == "error" else ""
        denial = _denial(error, tool)
        if denial is None:
            yield Allowed(tool, operation)
            yield ToolUse(brief(f"{tool} {operation or ''}"))
        else:
            yield Denied(tool, denial, operation)

    def _step(self, event: dict[str, Any]) -> Iterator[Signal]:
        meter, tokens = self._meter, member(event, "part", "tokens")
        uncached = count(member(tokens, "input")) + count(member(tokens, "cache", "write"))
        output = count(member(tokens, "output")) + count(member(tokens, "reasoning"))
        cached = count(member(tokens, "cache", "read"))
        meter.input_tokens += uncached
        meter.cached_tokens += cached
        meter.output_tokens += output
        meter.context_tokens = uncached + cached + output
        cost = amount(member(event, "part", "cost"))
        if cost is not None:
            meter.reported_dollars = (meter.reported_dollars or 0.0) + cost
        yield meter.usage()

    def _waits(self, event: dict[str, Any]) -> Iterator[Signal]:
        """opencode retries by itself. A long wait ends the round instead."""
        reason, until = text(event.get("message")), amount(event.get("until"))
        if until is None or until - self._now() <= SHORT_WAIT_SECONDS:
            yield AgentActivity(brief(f"waits for the model: {reason}"))
        elif not self._limited:
            limit = find_rate_limit(reason or "rate limit", self._now(), until)
            if limit is not None:
                self._limited = True
                yield limit

    def _failure(self, event: dict[str, Any]) -> Iterator[Signal]:
        error = event.get("error")
        self._error = (
            text(member(error, "data", "message")) or text(member(error, "name")) or "it failed"
        )
        headers = member(error, "data", "responseHeaders")
        waits = {key: member(headers, key) for key in ("retry-after", "retry-after-ms")}
        waits = {key: value for key, value in waits.items() if isinstance(value, str)}
        status, body = (
            member(error, "data", "statusCode"),
            text(member(error, "data", "responseBody")),
        )
        details = f"{self._error} status: {status} {json.dumps(waits)} {body[:5000]}"
        limit = None if self._limited else find_rate_limit(details, self._now())
        if limit is not None:
            self._limited = True
            yield limit._replace(message=brief(self._error, 500))


def _denial(error: str, tool: str) -> str | None:
    if error.startswith(_REFUSALS):
        return message(error)
    denial = find_denial(error, tool) if error else None
    return denial.error if denial else None
