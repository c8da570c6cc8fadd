"""Claude Code, headless."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from shiftboss.orchestrator.agents.agent import (
    HOOK_SECONDS,
    SERVER_NAME,
    TOKEN_VARIABLE,
    Allowed,
    Denied,
    Did,
    Finished,
    Launch,
    OutputReader,
    RateLimited,
    Signal,
    hook_command,
    launch,
    mcp_url,
    missing,
    write_settings,
)
from shiftboss.orchestrator.agents.output_lines import (
    SHORT_WAIT_SECONDS,
    Uses,
    amount,
    at,
    brief,
    count,
    deed,
    limit_in,
    message,
    objects,
    parsed,
    text,
)
from shiftboss.orchestrator.agents.usage_meter import UsageMeter
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.tasks.permission_denials import find_denial

# What Claude Code prints with `--output-format stream-json --verbose`.


_HOOK: Final = re.compile(r"PreToolUse:\S{1,200} hook (?:blocking )?error:? ?(?:\[.*?\]: ?)?")


class ClaudeOutput:
    """Every message has the tokens of its own request. A limit is told once as an event, then as
    words of an assistant that is none, then as the result: the first that has a time counts."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._uses = Uses()
        self._denied: set[str] = set()
        self._message = ""
        self._limited = False
        self._finished = False
        self._kinds: Final[dict[str, Callable[[dict[str, Any]], Iterator[Signal]]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "rate_limit_event": self._rate_limit,
            "result": self._result,
        }

    def read(self, line: str) -> list[Signal]:
        event = parsed(line)
        kind = self._kinds.get(text(at(event, "type")))
        return [] if event is None or kind is None else list(kind(event))

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        if exit_code == 0 or self._finished:
            return []
        limit = None if self._limited else limit_in(error_tail, self._now())
        return [limit] if limit else []

    def _system(self, event: dict[str, Any]) -> Iterator[Signal]:
        if event.get("subtype") == "init":
            self._meter.model = text(event.get("model")) or self._meter.model
            for server in objects(event.get("mcp_servers")):
                if server.get("name") == SERVER_NAME and server.get("status") == "failed":
                    yield Did("cannot reach the server's tools")
        elif event.get("subtype") == "api_retry":
            wait = (amount(event.get("retry_delay_ms")) or 0.0) / 1000
            why = f"{brief(text(event.get('error')))} {count(event.get('error_status')) or ''}"
            if wait > SHORT_WAIT_SECONDS and limit_in(f"error: {why}", self._now()):
                yield from self._limit(RateLimited(why, self._now() + wait))
            else:
                yield Did(f"waits {wait:.0f} s for the model: {why}")

    def _assistant(self, event: dict[str, Any]) -> Iterator[Signal]:
        said = at(event, "message")
        if event.get("error") or at(said, "model") == "<synthetic>":
            yield from self._error(text(at(said, "content")), event)
            return
        yield from self._count(event)
        for block in objects(at(said, "content")):
            if block.get("type") == "tool_use":
                yield self._uses.begin(block.get("id"), block.get("name"), block.get("input"))
            elif words := brief(text(block.get("text"))):
                yield Did(words)

    def _count(self, event: dict[str, Any]) -> Iterator[Signal]:
        """A message comes in several events, one for each block, all with the same numbers."""
        name, usage = text(at(event, "message", "id")), at(event, "message", "usage")
        if not name or name == self._message or not isinstance(usage, dict):
            return
        self._message = name
        meter = self._meter
        fresh = count(usage.get("input_tokens")) + count(usage.get("cache_creation_input_tokens"))
        cached, said = (
            count(usage.get("cache_read_input_tokens")),
            count(usage.get("output_tokens")),
        )
        meter.input_tokens += fresh
        meter.cached_tokens += cached
        meter.output_tokens += said
        if event.get("parent_tool_use_id") is None:  # a helper has a context of its own
            meter.context_tokens = fresh + cached + said
        yield meter.usage()

    def _user(self, event: dict[str, Any]) -> Iterator[Signal]:
        refused = {
            text(one.get("id"))
            for one in objects(event.get("tool_result_meta"))
            if at(one, "permission_decision", "decision") == "reject"
        }
        for block in objects(at(event, "message", "content")):
            if block.get("type") != "tool_result":
                continue
            use_id = text(block.get("tool_use_id"))
            tool, operation = self._uses.end(use_id)
            words = text(block.get("content")) if block.get("is_error") else ""
            denial = _denial(words, tool, use_id in refused)
            if denial is None:
                yield Allowed(tool, operation)
            else:
                self._denied.add(use_id)
                yield Denied(tool, denial, operation)

    def _rate_limit(self, event: dict[str, Any]) -> Iterator[Signal]:
        told = event.get("rate_limit_info")
        if at(told, "status") != "rejected" or at(told, "isUsingOverage") is True:
            return
        window = text(at(told, "rateLimitType")).replace("_", " ")
        yield from self._limit(RateLimited(f"the limit of {window} is reached", _reset_of(told)))

    def _error(self, words: str, event: dict[str, Any]) -> Iterator[Signal]:
        until = _reset_of(at(event, "api_error_params", "rate_limit_info"))
        limit = limit_in(words, self._now(), until)
        kinds = (text(event.get("error")), text(event.get("api_error_type")))
        if limit is None and any(kind.startswith(("rate_limit", "overloaded")) for kind in kinds):
            limit = RateLimited(brief(words, 500))
        if limit is not None:
            yield from self._limit(limit)
        elif words:
            yield Did(brief(words))

    def _limit(self, limit: RateLimited) -> Iterator[Signal]:
        if not self._limited:
            self._limited = True
            yield limit

    def _result(self, event: dict[str, Any]) -> Iterator[Signal]:
        """There is more than one when it was woken up by work in the background."""
        yield from self._totals(event)
        for one in objects(event.get("permission_denials")):
            if text(one.get("tool_use_id")) not in self._denied:
                tool = brief(text(one.get("tool_name"))) or "a tool"
                yield Denied(tool, f"{tool} was not permitted", deed(one.get("tool_input")))
        words = text(event.get("result")) or _errors(event.get("errors"))
        failed = event.get("is_error") is True or event.get("subtype") != "success"
        if failed:
            yield from self._error(words, event)
        self._finished = True
        yield Finished(not failed, message(words))

    def _totals(self, event: dict[str, Any]) -> Iterator[Signal]:
        meter = self._meter
        used = event.get("modelUsage")
        models = list(objects(list(used.values()))) if isinstance(used, dict) else []
        if models:
            fresh = ("inputTokens", "cacheCreationInputTokens")
            meter.input_tokens = sum(count(one.get(key)) for one in models for key in fresh)
            meter.output_tokens = sum(count(one.get("outputTokens")) for one in models)
            meter.cached_tokens = sum(count(one.get("cacheReadInputTokens")) for one in models)
            own = at(used, meter.model) or models[0]
            meter.told_window = count(at(own, "contextWindow")) or meter.told_window
        meter.told_dollars = amount(event.get("total_cost_usd")) or meter.told_dollars
        yield meter.usage()


def _denial(words: str, tool: str, refused: bool) -> str | None:
    """The reason, without what it is wrapped in."""
    if refused or words.startswith("PreToolUse:"):
        return message(_HOOK.sub("", words, count=1)) or f"{tool} was not permitted"
    found = find_denial(words, tool) if words else None
    return found.error if found else None


def _errors(told: object) -> str:
    return "; ".join(one for one in told if isinstance(one, str)) if isinstance(told, list) else ""


def _reset_of(told: object) -> float | None:
    return amount(at(told, "resetsAt"))


_VARIABLES: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
# Marks of the session that we may be started from: with them it takes itself for a part of it.
_OTHER_SESSION: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")
# Without asking, for there is nobody to ask. Not `bypassPermissions`: it refuses to start for root.
_ALLOWED: Final = (
    "Bash",
    "Edit",
    "Write",
    "NotebookEdit",
    "Read",
    "Glob",
    "Grep",
    "WebFetch",
    "WebSearch",
    "Task",
    "TodoWrite",
    "Skill",
    f"mcp__{SERVER_NAME}",
)


class Claude:
    """The user's settings are read, for the login may be in them; of MCP servers there is ours
    alone. Settings of the command line come before those of the tree, so a tree cannot turn the
    hooks off."""

    kind = "claude"
    speaks = True

    def launch(
        self, seat: Workspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        servers = write_settings(seat.scratch / "claude-mcp.json", _servers(seat))
        ours = write_settings(seat.scratch / "claude-settings.json", _settings(seat))
        chosen = model or settings.model
        arguments = [
            *("--print", "--output-format", "stream-json", "--verbose"),
            *("--mcp-config", str(servers), "--strict-mcp-config"),
            *("--settings", str(ours), "--permission-mode", "acceptEdits"),
            "--no-session-persistence",
            *(["--model", chosen] if chosen else []),
        ]
        start = launch(seat, settings, "claude", arguments, prompt, _VARIABLES)
        for name in _OTHER_SESSION:
            start.environment.pop(name, None)
        return start

    def reader(self, settings: PlanAgent) -> OutputReader:
        return ClaudeOutput(settings)

    def found(self, settings: PlanAgent) -> str | None:
        return missing(settings, "claude", "@anthropic-ai/claude-code")


def _servers(seat: Workspace) -> dict[str, Any]:
    server: dict[str, Any] = {"type": "http", "url": mcp_url(seat)}
    if seat.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
    return {"mcpServers": {SERVER_NAME: server}}


def _settings(seat: Workspace) -> dict[str, Any]:
    return {
        "disableAllHooks": False,
        "permissions": {"allow": list(_ALLOWED)},
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": [_hook("pre-tool-use", seat)]}],
            "Stop": [{"hooks": [_hook("stop", seat)]}],
        },
    }


def _hook(kind: str, seat: Workspace) -> dict[str, Any]:
    return {"type": "command", "command": hook_command(kind, seat), "timeout": HOOK_SECONDS}


AGENT: Final = Claude()
