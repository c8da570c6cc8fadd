"""Starting Claude Code, headless."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.agents.launch import (
    SERVER_NAME,
    AgentWorkspace,
    Launch,
    launch,
    mcp_url,
    shell_hook,
    write_settings,
)
from shiftboss.defaults import TOKEN_VARIABLE
from shiftboss.protocol.plan import PlanAgent

_VARIABLES: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
# Set if Shiftboss itself was started from a session of Claude Code. With them the agent would take
# itself for a part of that session.
_OUTER_SESSION: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")
# Allowed without asking, because no person is there to answer. The permission mode
# `bypassPermissions` is not an alternative: Claude Code refuses to start with it as root.
_ALLOWED_TOOLS: Final = (
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


def launch_claude(
    workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
) -> Launch:
    """The user's settings are read, because the login may be in them; the only MCP server is
    Shiftboss's. Settings of the command line take precedence over those of the work tree, so a work
    tree cannot turn the hooks off. The session is kept, so that a person can continue it
    (`attach`); the lists of Claude Code do not show sessions that were not interactive."""
    mcp_file = write_settings(workspace.scratch / "claude-mcp.json", _mcp_servers(workspace))
    settings_file = write_settings(workspace.scratch / "claude-settings.json", _settings(workspace))
    chosen_model = model or settings.model
    arguments = [
        *("--print", "--output-format", "stream-json", "--verbose"),
        *("--mcp-config", str(mcp_file), "--strict-mcp-config"),
        *("--settings", str(settings_file), "--permission-mode", "acceptEdits"),
        *(["--model", chosen_model] if chosen_model else []),
    ]
    start = launch(workspace, settings, "claude", arguments, prompt, _VARIABLES)
    for name in _OUTER_SESSION:
        start.environment.pop(name, None)
    return start


def _mcp_servers(workspace: AgentWorkspace) -> dict[str, Any]:
    server: dict[str, Any] = {"type": "http", "url": mcp_url(workspace)}
    if workspace.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
    return {"mcpServers": {SERVER_NAME: server}}


def _settings(workspace: AgentWorkspace) -> dict[str, Any]:
    return {
        "disableAllHooks": False,
        "permissions": {"allow": list(_ALLOWED_TOOLS)},
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": [shell_hook(workspace, "pre-tool-use")]}],
            "Stop": [{"hooks": [shell_hook(workspace, "stop")]}],
        },
    }
