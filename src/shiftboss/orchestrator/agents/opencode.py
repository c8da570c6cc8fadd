"""opencode, headless."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from shiftboss.hooks.command import opencode_plugin
from shiftboss.hooks.messages import REFUSED
from shiftboss.orchestrator.agents.agent import (
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
    launch,
    mcp_url,
    missing,
    users_environment,
    write_private,
)
from shiftboss.orchestrator.agents.output_lines import (
    SHORT_WAIT_SECONDS,
    amount,
    at,
    brief,
    count,
    deed,
    limit_in,
    message,
    parsed,
    text,
)
from shiftboss.orchestrator.agents.usage_meter import UsageMeter
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.tasks.permission_denials import find_denial

# What opencode prints with `run --format json`, and our own plugin among it.


# Of our plugin, and of its own rules.
_REFUSALS: Final = (
    REFUSED,
    "The user rejected permission",
    "The user has specified a rule which prevents",
)


class OpencodeOutput:
    """Every step has its tokens and its cost. It does not say how its run ended: the last words and
    the exit code do."""

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now
        self._words = ""
        self._error = ""
        self._limited = False
        self._kinds: Final[dict[str, Callable[[dict[str, Any]], Iterator[Signal]]]] = {
            "text": self._text,
            "tool_use": self._tool,
            "step_finish": self._step,
            "error": self._failure,
        }

    def read(self, line: str) -> list[Signal]:
        event = parsed(line)
        if event is None:
            return []
        if event.get("shiftboss") == "rate_limited":
            return list(self._waits(event))
        kind = self._kinds.get(text(event.get("type")))
        return [] if kind is None else list(kind(event))

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        if exit_code == 0 and not self._error:
            return [Finished(True, message(self._words))]
        words = self._error or error_tail
        limit = None if self._limited else limit_in(words, self._now())
        return [*([limit] if limit else []), Finished(False, message(words[-2000:]))]

    def _text(self, event: dict[str, Any]) -> Iterator[Signal]:
        self._words = text(at(event, "part", "text"))
        if words := brief(self._words):
            yield Did(words)

    def _tool(self, event: dict[str, Any]) -> Iterator[Signal]:
        state = at(event, "part", "state")
        tool, operation = (
            brief(text(at(event, "part", "tool"))) or "a tool",
            deed(at(state, "input")),
        )
        words = text(at(state, "error")) if at(state, "status") == "error" else ""
        denial = _denial(words, tool)
        if denial is None:
            yield Allowed(tool, operation)
            yield Did(brief(f"{tool} {operation or ''}"))
        else:
            yield Denied(tool, denial, operation)

    def _step(self, event: dict[str, Any]) -> Iterator[Signal]:
        meter, tokens = self._meter, at(event, "part", "tokens")
        fresh = count(at(tokens, "input")) + count(at(tokens, "cache", "write"))
        said = count(at(tokens, "output")) + count(at(tokens, "reasoning"))
        cached = count(at(tokens, "cache", "read"))
        meter.input_tokens += fresh
        meter.cached_tokens += cached
        meter.output_tokens += said
        meter.context_tokens = fresh + cached + said
        cost = amount(at(event, "part", "cost"))
        if cost is not None:
            meter.told_dollars = (meter.told_dollars or 0.0) + cost
        yield meter.usage()

    def _waits(self, event: dict[str, Any]) -> Iterator[Signal]:
        """It retries by itself; not for hours, if it is up to us."""
        words, until = text(event.get("message")), amount(event.get("until"))
        if until is None or until - self._now() <= SHORT_WAIT_SECONDS:
            yield Did(brief(f"waits for the model: {words}"))
        elif not self._limited:
            limit = limit_in(words or "rate limit", self._now(), until)
            if limit is not None:
                self._limited = True
                yield limit

    def _failure(self, event: dict[str, Any]) -> Iterator[Signal]:
        error = event.get("error")
        self._error = text(at(error, "data", "message")) or text(at(error, "name")) or "it failed"
        headers = at(error, "data", "responseHeaders")
        known = {key: at(headers, key) for key in ("retry-after", "retry-after-ms")}
        told = {key: value for key, value in known.items() if isinstance(value, str)}
        status, body = at(error, "data", "statusCode"), text(at(error, "data", "responseBody"))
        words = f"{self._error} status: {status} {json.dumps(told)} {body[:5000]}"
        limit = None if self._limited else limit_in(words, self._now())
        if limit is not None:
            self._limited = True
            yield limit._replace(message=brief(self._error, 500))


def _denial(words: str, tool: str) -> str | None:
    if words.startswith(_REFUSALS):
        return message(words)
    found = find_denial(words, tool) if words else None
    return found.error if found else None


_RETRIES: Final = Path(__file__).with_name("opencode_retries.js")
_USER_SETTINGS: Final = ("config.json", "opencode.json", "opencode.jsonc")


class Opencode:
    """Our settings are the last that it reads; the user's stay, for providers are set up in them,
    with the MCP servers turned off. Its database is a file of the attempt: sessions of workers are
    not among the user's, and workers do not wait for each other. The login is elsewhere.

    It cannot be kept from stopping: its plugins are told of the end, but not asked."""

    kind = "opencode"
    speaks = True

    def launch(
        self, seat: Workspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        folder = seat.scratch / "opencode"
        plugins = [
            write_private(folder / "hook.js", opencode_plugin(seat.contract_file)),
            write_private(folder / "retries.js", _RETRIES.read_text(encoding="utf-8")),
        ]
        environment = users_environment(seat, settings)
        chosen = model or settings.model
        arguments = [
            *("run", "--format", "json", "--auto", "--dir", str(seat.tree)),
            *(["--model", chosen] if chosen else []),
        ]
        variables = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(_settings(seat, environment, plugins)),
            "OPENCODE_DB": str(folder / "sessions.db"),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        }
        return launch(seat, settings, "opencode", arguments, prompt, variables)

    def reader(self, settings: PlanAgent) -> OutputReader:
        return OpencodeOutput(settings)

    def found(self, settings: PlanAgent) -> str | None:
        return missing(settings, "opencode", "opencode-ai")


def _settings(
    seat: Workspace, environment: Mapping[str, str], plugins: list[Path]
) -> dict[str, Any]:
    server: dict[str, Any] = {"type": "remote", "url": mcp_url(seat), "enabled": True}
    server |= {"oauth": False, "timeout": TOOL_SECONDS * 1000}
    if seat.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer {{env:{TOKEN_VARIABLE}}}"}
    foreign = {name: {"enabled": False} for name in _foreign_servers(environment)}
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,  # git has the history of the tree
        "mcp": {**foreign, SERVER_NAME: server},
        "permission": {"*": "allow"},
        "plugin": [path.as_uri() for path in plugins],
    }


def _foreign_servers(environment: Mapping[str, str]) -> Iterator[str]:
    """The names of the MCP servers in the user's settings, which are none of our business."""
    home = Path(environment.get("HOME", "~")).expanduser()
    folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    for name in _USER_SETTINGS:
        try:
            text = (folder / name).read_text(encoding="utf-8")
            members = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        except (OSError, ValueError, RecursionError):
            continue  # not there, or with commas and comments that we do not read
        servers = members.get("mcp") if isinstance(members, dict) else None
        yield from servers if isinstance(servers, dict) else ()


AGENT: Final = Opencode()
