"""Gemini CLI, headless."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.orchestrator.agents.agent import Launch, OutputReader
from shiftboss.orchestrator.agents.gemini_output import GeminiOutput
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
    write_settings,
)
from shiftboss.orchestrator.seat import Seat
from shiftboss.protocol.plan import PlanAgent

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

    def launch(self, seat: Seat, settings: PlanAgent, prompt: str, model: str | None) -> Launch:
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


def _settings(seat: Seat) -> dict[str, Any]:
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


def _hook(kind: str, seat: Seat) -> dict[str, Any]:
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
