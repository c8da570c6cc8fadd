"""Gemini CLI, headless."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.orchestrator.agents.agent import (
    HOOK_SECONDS,
    SERVER_NAME,
    TOKEN_VARIABLE,
    TOOL_SECONDS,
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
    users_environment,
    write_settings,
)
from shiftboss.orchestrator.agents.output_lines import (
    Uses,
    at,
    brief,
    count,
    limit_in,
    message,
    parsed,
    text,
)
from shiftboss.orchestrator.agents.usage_meter import UsageMeter
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.runs.quota_messages import reset_time
from shiftboss.rules.tasks.permission_denials import find_denial

# What Gemini CLI prints with `--output-format stream-json`.


_BLOCKED: Final = re.compile(r"Tool execution blocked: ?")
_REFUSALS: Final = ("policy_violation", "tool_not_permitted", "permission_denied")


class GeminiOutput:
    """Tokens are told at the end, and of the context nothing. That a quota is used up is in the
    result, and for how long in the errors: so it is told when both are there."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
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


_HOME: Final = "GEMINI_CLI_HOME"
_FOLDER: Final = ".gemini"
_SETTINGS: Final = "settings.json"
# Of the user's folder: what an attempt has of its own, and what has tools and hooks in it.
_NOT_LINKED: Final = (_SETTINGS, "tmp", "history", "extensions", "projects.json")


class Gemini:
    """It takes settings of hooks from files only, and those of the system from root only. So an
    attempt has a home for it, with links to what is in the user's: the login works, and is renewed,
    where it was. The user's settings are kept but for MCP servers and hooks."""

    kind = "gemini"
    speaks = True

    def launch(
        self, seat: Workspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        _check_tree(seat.tree)
        environment = users_environment(seat, settings)
        users = Path(environment.get(_HOME) or environment.get("HOME", "~")).expanduser()
        home = seat.scratch / "gemini"
        (home / _FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        _link(users, home)
        members = {**_read(users / _FOLDER / _SETTINGS), "mcpServers": {}, "hooks": {}}
        write_settings(home / _FOLDER / _SETTINGS, _merged(members, _settings(seat)))
        chosen = model or settings.model
        arguments = [
            *("--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"),
            *("--allowed-mcp-server-names", SERVER_NAME, "--extensions", "none"),
            *(["--model", chosen] if chosen else []),
        ]
        return launch(seat, settings, "gemini", arguments, prompt, {_HOME: str(home)})

    def reader(self, settings: PlanAgent) -> OutputReader:
        return GeminiOutput(settings)

    def found(self, settings: PlanAgent) -> str | None:
        return missing(settings, "gemini", "@google/gemini-cli")


def _settings(seat: Workspace) -> dict[str, Any]:
    server: dict[str, Any] = {"httpUrl": mcp_url(seat), "timeout": TOOL_SECONDS * 1000}
    if seat.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
    return {
        "mcpServers": {SERVER_NAME: server | {"trust": True}},
        "hooksConfig": {"enabled": True, "disabled": []},
        "hooks": {
            "BeforeTool": [{"matcher": ".*", "hooks": [_hook("gemini-before-tool", seat)]}],
            "AfterAgent": [{"hooks": [_hook("gemini-after-agent", seat)]}],
        },
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
    }


def _hook(kind: str, seat: Workspace) -> dict[str, Any]:
    command = hook_command(kind, seat)
    return {"type": "command", "command": command, "timeout": HOOK_SECONDS * 1000}


def _check_tree(tree: Path) -> None:
    """Settings of a tree come before the user's, so they could leave us without hooks."""
    hooks = _read(tree / _FOLDER / _SETTINGS).get("hooksConfig")
    if isinstance(hooks, dict) and (hooks.get("enabled") is False or hooks.get("disabled")):
        raise Forbidden(
            f"{_FOLDER}/{_SETTINGS} of the repository turns hooks of Gemini CLI off",
            hint="take `hooksConfig` out of it, or use another agent for the task",
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        members = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidRequest(
            f"Settings of Gemini CLI cannot be read: {path}: {exc}",
            hint="make it JSON without comments",
        ) from exc
    return members if isinstance(members, dict) else {}


def _link(users: Path, home: Path) -> None:
    """A link that is there from an earlier start stays."""
    entries = list((users / _FOLDER).iterdir()) if (users / _FOLDER).is_dir() else []
    links = {home / _FOLDER / entry.name: entry for entry in entries}
    links |= {home / ".env": users / ".env"} if (users / ".env").is_file() else {}
    for link, entry in links.items():
        if entry.name not in _NOT_LINKED and not link.is_symlink() and not link.exists():
            link.symlink_to(entry.absolute())


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged; of anything else the upper one counts."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged


AGENT: Final = Gemini()
