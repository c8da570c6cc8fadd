"""What the settings that `shiftboss init` writes into a repository have in common."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.agents.launch import SERVER_NAME, hook_settings
from shiftboss.defaults import ADDRESS
from shiftboss.rules.documents.file_edits import HookEntry, Member, hook_command

LOCAL_MCP_URL: Final = f"{ADDRESS}/mcp"
REPOSITORY_HOOK_SECONDS: Final = 30


def mcp_server(table: str, settings: dict[str, Any]) -> Member:
    """Our MCP server, in the table of MCP servers of this name."""
    return Member((table, SERVER_NAME), settings)


def tool_hook(
    event: str, kind: str, matcher: str, timeout: int = REPOSITORY_HOOK_SECONDS
) -> HookEntry:
    """Runs `shiftboss hook KIND` before every tool that matches."""
    return HookEntry(("hooks", event), {"matcher": matcher, "hooks": [_command(kind, timeout)]})


def stop_hook(event: str, kind: str, timeout: int = REPOSITORY_HOOK_SECONDS) -> HookEntry:
    """Runs `shiftboss hook KIND` before the agent ends."""
    return HookEntry(("hooks", event), {"hooks": [_command(kind, timeout)]})


def _command(kind: str, timeout: int) -> dict[str, Any]:
    return hook_settings(hook_command(kind), timeout)
