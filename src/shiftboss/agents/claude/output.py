"""Reads the output of Claude Code with `--print --output-format stream-json --verbose`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from shiftboss.agents.launch import SERVER_NAME
from shiftboss.agents.output_events import (
    AgentActivity,
    Allowed,
    Denied,
    Finished,
    RateLimited,
    Signal,
)
from shiftboss.agents.output_lines import (
    SHORT_WAIT_SECONDS,
    ToolUses,
    amount,
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

# Claude Code puts this in front of the reason of a hook.
_HOOK_PREFIX: Final = re.compile(
    r"PreToolUse:\S{1,200} hook (?:blocking )?error:? ?(?:\[.*?\]: ?)?"
)


class ClaudeOutput:
    """Every message carries the tokens of its own request. A rate limit is reported three times: as
    an event, as a synthetic message of the assistant, and as the result. The first one counts."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._uses = ToolUses()
        self._denied: set[str] = set()
        self._last_message_id = ""
        self._limited = False
        self._finished = False
        self._handlers: Final[dict[str, Callable[[dict[str, Any]], Iterator[Signal]]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "rate_limit_event": self._rate_limit,
            "result": self._result,
        }

    def read(self, line: str) -> list[Signal]:
        event = parse_object(line)
        handler = self._handlers.get(text(member(event, "type")))
        return [] if event is None or handler is None else list(handler(event))

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        if exit_code == 0 or self._finished:
            return []
        limit = None if self._limited else find_rate_limit(error_tail, self._now())
        return [limit] if limit else []

    def _system(self, event: dict[str, Any]) -> Iterator[Signal]:
        if event.get("subtype") == "init":
            self._meter.model = text(event.get("model")) or self._meter.model
            for server in objects(event.get("mcp_servers")):
                if server.get("name") == SERVER_NAME and server.get("status") == "failed":
                    yield AgentActivity("cannot reach the server's tools")
        elif event.get("subtype") == "api_retry":
            wait = (amount(event.get("retry_delay_ms")) or 0.0) / 1000
            reason = f"{brief(text(event.get('error')))} {count(event.get('error_status')) or ''}"
            if wait > SHORT_WAIT_SECONDS and find_rate_limit(f"error: {reason}", self._now()):
                yield from self._limit(RateLimited(reason, self._now() + wait))
            else:
                yield AgentActivity(f"waits {wait:.0f} s for the model: {reason}")

    def _assistant(self, event: dict[str, Any]) -> Iterator[Signal]:
        content = member(event, "message", "content")
        if event.get("error") or member(event, "message", "model") == "<synthetic>":
            yield from self._error(text(content), event)
            return
        yield from self._add_usage(event)
        for block in objects(content):
            if block.get("type") == "tool_use":
                yield self._uses.begin(block.get("id"), block.get("name"), block.get("input"))
            elif sentence := brief(text(block.get("text"))):
                yield AgentActivity(sentence)

    def _add_usage(self, event: dict[str, Any]) -> Iterator[Signal]:
        """A message comes in several events, one for each block, all with the same numbers."""
        message_id, usage = text(member(event, "message", "id")), member(event, "message", "usage")
        if not message_id or message_id == self._last_message_id or not isinstance(usage, dict):
            return
        self._last_message_id = message_id
        meter = self._meter
        uncached = count(usage.get("input_tokens")) + count(
            usage.get("cache_creation_input_tokens")
        )
        cached = count(usage.get("cache_read_input_tokens"))
        output = count(usage.get("output_tokens"))
        meter.input_tokens += uncached
        meter.cached_tokens += cached
        meter.output_tokens += output
        if event.get("parent_tool_use_id") is None:  # a subagent has a context of its own
            meter.context_tokens = uncached + cached + output
        yield meter.usage()

    def _user(self, event: dict[str, Any]) -> Iterator[Signal]:
        refused = {
            text(result.get("id"))
            for result in objects(event.get("tool_result_meta"))
            if member(result, "permission_decision", "decision") == "reject"
        }
        for block in objects(member(event, "message", "content")):
            if block.get("type") != "tool_result":
                continue
            use_id = text(block.get("tool_use_id"))
            tool, operation = self._uses.end(use_id)
            error = text(block.get("content")) if block.get("is_error") else ""
            denial = _denial(error, tool, use_id in refused)
            if denial is None:
                yield Allowed(tool, operation)
            else:
                self._denied.add(use_id)
                yield Denied(tool, denial, operation)

    def _rate_limit(self, event: dict[str, Any]) -> Iterator[Signal]:
        info = event.get("rate_limit_info")
        if member(info, "status") != "rejected" or member(info, "isUsingOverage") is True:
            return
        window = text(member(info, "rateLimitType")).replace("_", " ")
        yield from self._limit(RateLimited(f"the {window} limit is reached", _reset_time(info)))

    def _error(self, error: str, event: dict[str, Any]) -> Iterator[Signal]:
        until = _reset_time(member(event, "api_error_params", "rate_limit_info"))
        limit = find_rate_limit(error, self._now(), until)
        kinds = (text(event.get("error")), text(event.get("api_error_type")))
        if limit is None and any(kind.startswith(("rate_limit", "overloaded")) for kind in kinds):
            limit = RateLimited(brief(error, 500))
        if limit is not None:
            yield from self._limit(limit)
        elif error:
            yield AgentActivity(brief(error))

    def _limit(self, limit: RateLimited) -> Iterator[Signal]:
        if not self._limited:
            self._limited = True
            yield limit

    def _result(self, event: dict[str, Any]) -> Iterator[Signal]:
        """There is more than one result if background work has woken the agent up."""
        yield from self._totals(event)
        for denial in objects(event.get("permission_denials")):
            if text(denial.get("tool_use_id")) not in self._denied:
                tool = brief(text(denial.get("tool_name"))) or "a tool"
                operation = describe_input(denial.get("tool_input"))
                yield Denied(tool, f"{tool} was not permitted", operation)
        result = text(event.get("result")) or _joined(event.get("errors"))
        failed = event.get("is_error") is True or event.get("subtype") != "success"
        if failed:
            yield from self._error(result, event)
        self._finished = True
        yield Finished(not failed, message(result))

    def _totals(self, event: dict[str, Any]) -> Iterator[Signal]:
        meter = self._meter
        by_model = event.get("modelUsage")
        usages = list(objects(list(by_model.values()))) if isinstance(by_model, dict) else []
        if usages:
            uncached = ("inputTokens", "cacheCreationInputTokens")
            meter.input_tokens = sum(count(usage.get(key)) for usage in usages for key in uncached)
            meter.output_tokens = sum(count(usage.get("outputTokens")) for usage in usages)
            meter.cached_tokens = sum(count(usage.get("cacheReadInputTokens")) for usage in usages)
            main = member(by_model, meter.model) or usages[0]
            meter.reported_window = count(member(main, "contextWindow")) or meter.reported_window
        meter.reported_dollars = amount(event.get("total_cost_usd")) or meter.reported_dollars
        yield meter.usage()


def _denial(error: str, tool: str, refused: bool) -> str | None:
    """The reason of a denial; None if the error is not one."""
    if refused or error.startswith("PreToolUse:"):
        return message(_HOOK_PREFIX.sub("", error, count=1)) or f"{tool} was not permitted"
    denial = find_denial(error, tool) if error else None
    return denial.error if denial else None


def _joined(errors: object) -> str:
    if not isinstance(errors, list):
        return ""
    return "; ".join(error for error in errors if isinstance(error, str))


def _reset_time(info: object) -> float | None:
    return amount(member(info, "resetsAt"))
