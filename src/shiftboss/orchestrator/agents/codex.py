"""Codex, headless."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from shiftboss.orchestrator.agents.agent import Launch, OutputReader
from shiftboss.orchestrator.agents.codex_output import CodexOutput
from shiftboss.orchestrator.agents.starting import (
    HOOK_SECONDS,
    SERVER_NAME,
    TOKEN_VARIABLE,
    TOOL_SECONDS,
    hook_command,
    launch,
    mcp_url,
    missing,
    users_environment,
)
from shiftboss.orchestrator.seat import Seat
from shiftboss.protocol.plan import PlanAgent

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

    def launch(self, seat: Seat, settings: PlanAgent, prompt: str, model: str | None) -> Launch:
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


def _server(seat: Seat) -> dict[str, Any]:
    server = {"url": mcp_url(seat), "enabled": True, "tool_timeout_sec": TOOL_SECONDS}
    # On a busy machine its own ten seconds pass, and it goes to work without our tools.
    patience = {"startup_timeout_sec": TOOL_SECONDS}
    token = {"bearer_token_env_var": TOKEN_VARIABLE} if seat.server_token is not None else {}
    return {**server, **patience, **token}


def _hooks(seat: Seat) -> dict[str, Any]:
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
