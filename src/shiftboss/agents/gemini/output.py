"""Reads the output of Gemini CLI with `--output-format stream-json`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shiftboss.agents.output_events import (
    AgentActivity,
    Allowed,
    Denied,
    Finished,
    RateLimited,
    Signal,
)
from shiftboss.agents.output_lines import (
    ToolUses,
    brief,
    count,
    find_rate_limit,
    member,
    message,
    parse_object,
    text,
)
from shiftboss.agents.usage_meter import UsageMeter
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.runs.quota_messages import reset_time
from shiftboss.rules.tasks.permission_denials import find_denial

_BLOCKED: Final = re.compile(r"Tool execution blocked: ?")
_REFUSAL_TYPES: Final = ("policy_violation", "tool_not_permitted", "permission_denied")


class GeminiOutput:
    """Tokens are reported at the end, the context never. The result says that a quota is used up,
    and the error output says for how long, so a rate limit is reported when both are there."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._uses = ToolUses()
        self._last_message = ""
        self._error = ""
        self._handlers: Final[dict[str, Callable[[dict[str, Any]], Iterator[Signal]]]] = {
            "init": self._init,
            "message": self._message,
            "tool_use": self._tool_use,
            "tool_result": self._tool_result,
            "error": self._warning,
            "result": self._result,
        }

    def read(self, line: str) -> list[Signal]:
        event = parse_object(line)
        handler = self._handlers.get(text(member(event, "type")))
        return [] if event is None or handler is None else list(handler(event))

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        if exit_code == 0 and not self._error:
            return []
        limit = find_rate_limit(self._error or error_tail, self._now())
        if limit is None:
            return []
        until = limit.until or reset_time(error_tail, self._now())
        if until is None and "daily quota" in limit.message:
            until = _next_day(self._now())
        return [RateLimited(limit.message, until)]

    def _init(self, event: dict[str, Any]) -> Iterator[Signal]:
        self._meter.model = text(event.get("model")) or self._meter.model
        return iter(())

    def _message(self, event: dict[str, Any]) -> Iterator[Signal]:
        """A message comes in pieces."""
        if event.get("role") == "assistant":
            piece = text(event.get("content"))
            self._last_message = f"{self._last_message}{piece}"[-10_000:]
            if activity := brief(piece):
                yield AgentActivity(activity)

    def _tool_use(self, event: dict[str, Any]) -> Iterator[Signal]:
        self._last_message = ""
        yield self._uses.begin(
            event.get("tool_id"), event.get("tool_name"), event.get("parameters")
        )

    def _tool_result(self, event: dict[str, Any]) -> Iterator[Signal]:
        tool, operation = self._uses.end(event.get("tool_id"))
        denial = _denial(event, tool) if event.get("status") == "error" else None
        if denial is None:
            yield Allowed(tool, operation)
        else:
            yield Denied(tool, denial, operation)

    def _warning(self, event: dict[str, Any]) -> Iterator[Signal]:
        """The agent continues, even after severity `error`. A final error is in the result."""
        self._last_message = ""
        if warning := brief(text(event.get("message"))):
            yield AgentActivity(warning)

    def _result(self, event: dict[str, Any]) -> Iterator[Signal]:
        stats, meter = event.get("stats"), self._meter
        meter.cached_tokens = count(member(stats, "cached"))
        meter.input_tokens = max(count(member(stats, "input_tokens")) - meter.cached_tokens, 0)
        meter.output_tokens = count(member(stats, "output_tokens"))
        yield meter.usage()
        ok = event.get("status") == "success"
        self._error = "" if ok else text(member(event, "error", "message")) or "it failed"
        yield Finished(ok, message(self._last_message if ok else self._error))


def _denial(event: dict[str, Any], tool: str) -> str | None:
    error = text(member(event, "error", "message")) or text(event.get("output"))
    if member(event, "error", "type") in _REFUSAL_TYPES or _BLOCKED.match(error):
        return message(_BLOCKED.sub("", error, count=1)) or f"{tool} was not permitted"
    denial = find_denial(error, tool)
    return denial.error if denial else None


def _next_day(now: float) -> float | None:
    """When daily quotas are reset: at midnight, Pacific time."""
    try:
        pacific = datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo("America/Los_Angeles"))
    except (ZoneInfoNotFoundError, OSError):
        return None
    midnight = pacific.replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight + timedelta(days=1)).timestamp()
