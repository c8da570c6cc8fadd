"""Codex, headless."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

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
    Signal,
    hook_command,
    launch,
    mcp_url,
    missing,
    users_environment,
)
from shiftboss.orchestrator.agents.output_lines import (
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

# What Codex prints with `exec --json`, and its errors among it.


LINE_CHARACTERS_MAX: Final = 20_000
REFUSAL_LINES_MAX: Final = 40
# `... Command blocked by PreToolUse hook: REASON. Command: COMMAND`, the reason in several lines.
_BLOCKED: Final = re.compile(r"(?:Command|Tool call) blocked by PreToolUse hook: ")
_WHAT: Final = re.compile(r"\. (Command|Tool): ")
_SHELL: Final = re.compile(r"^\S*/(?:bash|zsh|sh) -l?c ")


class CodexOutput:
    """Tokens are told at the end of a turn, and of the context nothing at all: it makes room in it
    by itself. That a hook refused something is told with its errors alone, outside of the JSON."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._said = ""
        self._limited = False
        self._over = False
        self._refusal: list[str] = []

    def read(self, line: str) -> list[Signal]:
        event = parsed(line)
        if event is None:
            return list(self._error_line(line[:LINE_CHARACTERS_MAX]))
        return [*self._refused(), *self._event(event)]

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        """Errors are read here too, where they came apart from the output."""
        found = [one for line in error_tail.splitlines() for one in self._error_line(line)]
        found += self._refused()
        if exit_code != 0 and not self._over:
            found += self._limit(error_tail)
        return found

    def _event(self, event: dict[str, Any]) -> Iterator[Signal]:
        kind = text(event.get("type"))
        if kind == "item.started":
            tool, operation = _use(event.get("item")) or ("", None)
            yield from _did(f"{tool} {operation or ''}")
        elif kind == "item.completed":
            yield from self._item(event.get("item"))
        elif kind == "turn.completed":
            yield self._usage(event.get("usage"))
            yield self._end(True, self._said)
        elif kind in ("turn.failed", "error"):
            words = text(at(event, "error", "message")) or text(event.get("message"))
            yield from self._error(words, kind == "turn.failed")

    def _error_line(self, line: str) -> Iterator[Signal]:
        start = _BLOCKED.search(line)
        if start is not None:
            yield from self._refused()
            self._refusal = [line[start.end() :]]
        elif self._refusal:
            self._refusal.append(line)
        if self._refusal and (_WHAT.search(line) or len(self._refusal) > REFUSAL_LINES_MAX):
            yield from self._refused()

    def _refused(self) -> Iterator[Signal]:
        """What has come of a refusal."""
        lines, self._refusal = self._refusal, []
        if not lines:
            return
        why, *what = _WHAT.split("\n".join(lines), maxsplit=1)
        if not what:
            yield Denied("a tool", message(why))
        elif what[0] == "Tool":
            yield Denied(brief(what[1]) or "a tool", message(why))
        else:
            yield Denied("Bash", message(why), brief(what[1]))

    def _item(self, item: object) -> Iterator[Signal]:
        kind = text(at(item, "type"))
        if kind == "agent_message":
            self._said = text(at(item, "text"))
            yield from _did(self._said)
        elif kind == "error":
            yield from self._limit(text(at(item, "message")))
        elif used := _use(item):
            yield _outcome(*used, item)

    def _usage(self, told: object) -> Signal:
        """Of the whole thread so far."""
        meter = self._meter
        meter.cached_tokens = count(at(told, "cached_input_tokens"))
        meter.input_tokens = max(count(at(told, "input_tokens")) - meter.cached_tokens, 0)
        meter.output_tokens = count(at(told, "output_tokens"))
        return meter.usage()

    def _error(self, words: str, failed: bool) -> Iterator[Signal]:
        """An `error` may be followed by another try, as `Reconnecting... 1/5`."""
        yield from self._limit(words)
        if failed:
            yield self._end(False, words)
        elif words:
            yield Did(brief(words))

    def _limit(self, words: str) -> list[Signal]:
        limit = None if self._limited else limit_in(words, self._now())
        if limit is None or words.startswith("Reconnecting"):
            return []
        self._limited = True
        return [limit]

    def _end(self, ok: bool, words: str) -> Finished:
        self._over = True
        return Finished(ok, message(words))


def _did(words: str) -> Iterator[Signal]:
    if line := brief(words):
        yield Did(line)


def _use(item: object) -> tuple[str, str | None] | None:
    """Of an item that is the use of a tool: its name, and what it is to do."""
    kind = text(at(item, "type"))
    if kind == "command_execution":
        return "Bash", _command(text(at(item, "command")))
    if kind == "file_change":
        paths = [text(one.get("path")) for one in objects(at(item, "changes"))]
        return "apply_patch", deed({"path": " ".join(paths)})
    if kind == "mcp_tool_call":
        return brief(f"{text(at(item, 'server'))}.{text(at(item, 'tool'))}"), None
    if kind == "web_search":
        return "web_search", deed(item)
    return None


def _outcome(tool: str, operation: str | None, item: object) -> Signal:
    status = text(at(item, "status"))
    words = text(at(item, "aggregated_output")) or text(at(item, "error", "message"))
    denial = find_denial(words, tool) if status in ("failed", "declined") else None
    if denial is not None:
        return Denied(denial.tool, denial.error, operation)
    if status == "declined":
        return Denied(tool, brief(words) or f"{tool} was not permitted", operation)
    return Allowed(tool, operation)


def _command(command: str) -> str:
    """Without the shell that it is given to."""
    return brief(_SHELL.sub("", command[:LINE_CHARACTERS_MAX], count=1).strip("\"'"))


_SETTINGS: Final[dict[str, Any]] = {
    "approval_policy": "never",
    # Its own sandbox would keep it from committing: the repository's .git lies outside of the tree.
    "sandbox_mode": "danger-full-access",
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "history.persistence": "none",
    "notify": [],
    "features.hooks": True,  # whatever the tree says
    # Tools of the account that the user is logged in with.
    "features.apps": False,
}

# It tells only with its errors that a hook has refused something, and that should be known at once.
_ERRORS_TOO: Final = ("/bin/sh", "-c", 'exec "$@" 2>&1', "codex")


class Codex:
    """Our settings go in on the command line. CODEX_HOME stays the user's, for the login is in it
    or is found by its name; the MCP servers of the user's settings are turned off one by one."""

    kind = "codex"
    speaks = True

    def launch(
        self, seat: Workspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        chosen = model or settings.model
        # One table for all servers: names with a dot in them are no keys of the command line.
        servers = {
            name: {"enabled": False} for name in _foreign_servers(users_environment(seat, settings))
        }
        servers[SERVER_NAME] = _server(seat)
        members = {**_SETTINGS, "mcp_servers": servers, **_hooks(seat)}
        overrides = [f"{key}={_toml(value)}" for key, value in members.items()]
        arguments = [
            *("exec", "--json", "--color", "never", "--ephemeral", "--skip-git-repo-check"),
            *("--cd", str(seat.tree), "--dangerously-bypass-hook-trust"),
            *(part for override in overrides for part in ("--config", override)),
            *(["--model", chosen] if chosen else []),
        ]
        start = launch(seat, settings, "codex", arguments, prompt)
        return replace(start, argv=[*_ERRORS_TOO, *start.argv])

    def reader(self, settings: PlanAgent) -> OutputReader:
        return CodexOutput(settings)

    def found(self, settings: PlanAgent) -> str | None:
        return missing(settings, "codex", "@openai/codex")


def _server(seat: Workspace) -> dict[str, Any]:
    server = {"url": mcp_url(seat), "enabled": True, "tool_timeout_sec": TOOL_SECONDS}
    # On a busy machine its own ten seconds pass, and it goes to work without our tools.
    patience = {"startup_timeout_sec": TOOL_SECONDS}
    token = {"bearer_token_env_var": TOKEN_VARIABLE} if seat.server_token is not None else {}
    return {**server, **patience, **token}


def _hooks(seat: Workspace) -> dict[str, Any]:
    def hook(kind: str) -> dict[str, Any]:
        return {"type": "command", "command": hook_command(kind, seat), "timeout": HOOK_SECONDS}

    return {
        "hooks.PreToolUse": [{"matcher": ".*", "hooks": [hook("codex-pre-tool-use")]}],
        "hooks.Stop": [{"hooks": [hook("codex-stop")]}],
    }


def _foreign_servers(environment: Mapping[str, str]) -> Iterator[str]:
    """The MCP servers in the user's settings, which are none of our business."""
    home = environment.get("CODEX_HOME") or Path(environment.get("HOME", "~")) / ".codex"
    try:
        with (Path(home).expanduser() / "config.toml").open("rb") as file:
            servers = tomllib.load(file).get("mcp_servers")
    except (OSError, ValueError):
        return  # without settings, or with such as Codex itself refuses
    yield from servers if isinstance(servers, dict) else ()


def _toml(value: Any) -> str:
    """Of what we put into settings: texts, numbers, lists and tables on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


AGENT: Final = Codex()
