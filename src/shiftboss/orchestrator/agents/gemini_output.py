"""What Gemini CLI prints with `--output-format stream-json`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shiftboss.orchestrator.agents.agent import Allowed, Denied, Did, Finished, RateLimited, Signal
from shiftboss.orchestrator.agents.lines import (
    Uses,
    at,
    brief,
    count,
    limit_in,
    message,
    parsed,
    text,
)
from shiftboss.orchestrator.agents.meter import Meter
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.runs.quota_messages import reset_time
from shiftboss.rules.tasks.permission_denials import find_denial

_BLOCKED: Final = re.compile(r"Tool execution blocked: ?")
_REFUSALS: Final = ("policy_violation", "tool_not_permitted", "permission_denied")


class GeminiOutput:
    """Tokens are told at the end, and of the context nothing. That a quota is used up is in the
    result, and for how long in the errors: so it is told when both are there."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = Meter(settings)
        self._now = now
        self._uses = Uses()
        self._words = ""
        self._error = ""
        self._kinds: Final[dict[str, Callable[[dict[str, Any]], Iterator[Signal]]]] = {
            "init": self._init,
            "message": self._message,
            "tool_use": self._tool_use,
            "tool_result": self._tool_result,
            "error": self._warning,
            "result": self._result,
        }

    def read(self, line: str) -> list[Signal]:
        event = parsed(line)
        kind = self._kinds.get(text(at(event, "type")))
        return [] if event is None or kind is None else list(kind(event))

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        if exit_code == 0 and not self._error:
            return []
        limit = limit_in(self._error or error_tail, self._now())
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
        """The words come in pieces."""
        if event.get("role") == "assistant":
            piece = text(event.get("content"))
            self._words = f"{self._words}{piece}"[-10_000:]
            if words := brief(piece):
                yield Did(words)

    def _tool_use(self, event: dict[str, Any]) -> Iterator[Signal]:
        self._words = ""
        tool = (event.get("tool_id"), event.get("tool_name"), event.get("parameters"))
        yield self._uses.begin(*tool)

    def _tool_result(self, event: dict[str, Any]) -> Iterator[Signal]:
        tool, operation = self._uses.end(event.get("tool_id"))
        denial = _denial(event, tool) if event.get("status") == "error" else None
        if denial is None:
            yield Allowed(tool, operation)
        else:
            yield Denied(tool, denial, operation)

    def _warning(self, event: dict[str, Any]) -> Iterator[Signal]:
        """Of severity `error` too it goes on; the last one is in the result."""
        self._words = ""
        if words := brief(text(event.get("message"))):
            yield Did(words)

    def _result(self, event: dict[str, Any]) -> Iterator[Signal]:
        stats, meter = event.get("stats"), self._meter
        meter.cached_tokens = count(at(stats, "cached"))
        meter.input_tokens = max(count(at(stats, "input_tokens")) - meter.cached_tokens, 0)
        meter.output_tokens = count(at(stats, "output_tokens"))
        yield meter.usage()
        ok = event.get("status") == "success"
        self._error = "" if ok else text(at(event, "error", "message")) or "it failed"
        yield Finished(ok, message(self._words if ok else self._error))


def _denial(event: dict[str, Any], tool: str) -> str | None:
    words = text(at(event, "error", "message")) or text(event.get("output"))
    if at(event, "error", "type") in _REFUSALS or _BLOCKED.match(words):
        return message(_BLOCKED.sub("", words, count=1)) or f"{tool} was not permitted"
    found = find_denial(words, tool)
    return found.error if found else None


def _next_day(now: float) -> float | None:
    """When quotas of a day begin anew, which is midnight where Google is."""
    try:
        there = datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo("America/Los_Angeles"))
    except (ZoneInfoNotFoundError, OSError):
        return None
    midnight = there.replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight + timedelta(days=1)).timestamp()
