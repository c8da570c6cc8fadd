"""Starting Gemini CLI, headless."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shiftboss.agents.launch import (
    HOOK_SECONDS,
    SERVER_NAME,
    TOOL_SECONDS,
    AgentWorkspace,
    Launch,
    launch,
    mcp_url,
    shell_hook,
    user_environment,
    write_settings,
)
from shiftboss.defaults import TOKEN_VARIABLE
from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.protocol.plan import PlanAgent

_HOME: Final = "GEMINI_CLI_HOME"
_FOLDER: Final = ".gemini"
_SETTINGS: Final = "settings.json"
# Entries of the user's folder that an attempt has of its own, or that bring tools and hooks.
_NOT_LINKED: Final = (_SETTINGS, "tmp", "history", "extensions", "projects.json")


def launch_gemini(
    workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
) -> Launch:
    """Gemini CLI takes hooks from settings files only, and system settings from root only. So an
    attempt has a home folder of its own, with links to the entries of the user's: the login works,
    and is renewed, where it was. Of the user's settings only MCP servers and hooks are dropped."""
    _check_tree(workspace.tree)
    environment = user_environment(workspace, settings)
    user_home = Path(environment.get(_HOME) or environment.get("HOME", "~")).expanduser()
    home = workspace.scratch / "gemini"
    (home / _FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    _link_entries(user_home, home)
    user_settings = {**_read(user_home / _FOLDER / _SETTINGS), "mcpServers": {}, "hooks": {}}
    write_settings(home / _FOLDER / _SETTINGS, _merge(user_settings, _settings(workspace)))
    chosen_model = model or settings.model
    arguments = [
        *("--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"),
        *("--allowed-mcp-server-names", SERVER_NAME, "--extensions", "none"),
        *(["--model", chosen_model] if chosen_model else []),
    ]
    return launch(workspace, settings, "gemini", arguments, prompt, {_HOME: str(home)})


def _settings(workspace: AgentWorkspace) -> dict[str, Any]:
    server: dict[str, Any] = {"httpUrl": mcp_url(workspace), "timeout": TOOL_SECONDS * 1000}
    if workspace.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
    before_tool, after_agent = (
        shell_hook(workspace, kind, HOOK_SECONDS * 1000)
        for kind in ("gemini-before-tool", "gemini-after-agent")
    )
    return {
        "mcpServers": {SERVER_NAME: server | {"trust": True}},
        "hooksConfig": {"enabled": True, "disabled": []},
        "hooks": {
            "BeforeTool": [{"matcher": ".*", "hooks": [before_tool]}],
            "AfterAgent": [{"hooks": [after_agent]}],
        },
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
    }


def _check_tree(tree: Path) -> None:
    """The settings of the work tree take precedence, so they could turn our hooks off."""
    hooks = _read(tree / _FOLDER / _SETTINGS).get("hooksConfig")
    if isinstance(hooks, dict) and (hooks.get("enabled") is False or hooks.get("disabled")):
        raise Forbidden(
            f"{_FOLDER}/{_SETTINGS} of the repository turns off the hooks of Gemini CLI",
            hint="remove `hooksConfig` from it, or use another agent for the task",
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        members = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidRequest(
            f"the settings of Gemini CLI cannot be read: {path}: {exc}",
            hint="make the file valid JSON without comments",
        ) from exc
    return members if isinstance(members, dict) else {}


def _link_entries(user_home: Path, home: Path) -> None:
    """Links from an earlier start stay as they are."""
    entries = list((user_home / _FOLDER).iterdir()) if (user_home / _FOLDER).is_dir() else []
    links = {home / _FOLDER / entry.name: entry for entry in entries}
    links |= {home / ".env": user_home / ".env"} if (user_home / ".env").is_file() else {}
    for link, entry in links.items():
        if entry.name not in _NOT_LINKED and not link.is_symlink() and not link.exists():
            link.symlink_to(entry.absolute())


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables; for anything else the override counts."""
    merged = dict(base)
    for key, value in override.items():
        current = merged.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            merged[key] = _merge(current, value)
        else:
            merged[key] = value
    return merged
