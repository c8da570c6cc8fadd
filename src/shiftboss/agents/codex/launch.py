"""Starting Codex, headless."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from shiftboss.agents.launch import (
    SERVER_NAME,
    TOOL_SECONDS,
    AgentWorkspace,
    Launch,
    launch,
    mcp_url,
    shell_hook,
    user_environment,
)
from shiftboss.defaults import TOKEN_VARIABLE
from shiftboss.protocol.plan import PlanAgent

_SETTINGS: Final[dict[str, Any]] = {
    "approval_policy": "never",
    # Its own sandbox would not let it commit: the .git of the repository is outside of the tree.
    "sandbox_mode": "danger-full-access",
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "history.persistence": "none",
    "notify": [],
    "features.hooks": True,  # even if the settings of the work tree turn them off
    # Tools of the account that the user is logged in with; a worker gets only Shiftboss's.
    "features.apps": False,
}

# Refusals by a hook are only in the error output, and the orchestrator has to see them at once.
_MERGE_ERRORS: Final = ("/bin/sh", "-c", 'exec "$@" 2>&1', "codex")


def launch_codex(
    workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
) -> Launch:
    """Our settings go in on the command line. CODEX_HOME stays that of the user, because the login
    is found there; the MCP servers of the user's settings are turned off one by one."""
    chosen_model = model or settings.model
    # One table for all servers: a name with a dot in it cannot be a key on the command line.
    other_servers = _user_servers(user_environment(workspace, settings))
    servers = {name: {"enabled": False} for name in other_servers}
    servers[SERVER_NAME] = _server(workspace)
    members = {**_SETTINGS, "mcp_servers": servers, **_hooks(workspace)}
    overrides = [f"{key}={_toml(value)}" for key, value in members.items()]
    arguments = [
        *("exec", "--json", "--color", "never", "--ephemeral", "--skip-git-repo-check"),
        *("--cd", str(workspace.tree), "--dangerously-bypass-hook-trust"),
        *(part for override in overrides for part in ("--config", override)),
        *(["--model", chosen_model] if chosen_model else []),
    ]
    start = launch(workspace, settings, "codex", arguments, prompt)
    return replace(start, argv=[*_MERGE_ERRORS, *start.argv])


def _server(workspace: AgentWorkspace) -> dict[str, Any]:
    server = {"url": mcp_url(workspace), "enabled": True, "tool_timeout_sec": TOOL_SECONDS}
    token = {"bearer_token_env_var": TOKEN_VARIABLE} if workspace.server_token is not None else {}
    # By default Codex waits ten seconds for a server to start, and then works without our tools.
    # A busy machine can take longer.
    patience = {"startup_timeout_sec": TOOL_SECONDS}
    return {**server, **patience, **token}


def _hooks(workspace: AgentWorkspace) -> dict[str, Any]:
    before_tool = shell_hook(workspace, "codex-pre-tool-use")
    return {
        "hooks.PreToolUse": [{"matcher": ".*", "hooks": [before_tool]}],
        "hooks.Stop": [{"hooks": [shell_hook(workspace, "codex-stop")]}],
    }


def _user_servers(environment: Mapping[str, str]) -> Iterator[str]:
    """The names of the MCP servers in the user's settings. A worker must not use them."""
    home = environment.get("CODEX_HOME") or Path(environment.get("HOME", "~")) / ".codex"
    try:
        with (Path(home).expanduser() / "config.toml").open("rb") as file:
            servers = tomllib.load(file).get("mcp_servers")
    except (OSError, ValueError):
        return  # no settings, or invalid ones, which Codex itself reports
    yield from servers if isinstance(servers, dict) else ()


def _toml(value: Any) -> str:
    """Strings, numbers, lists and tables, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
