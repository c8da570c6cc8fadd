"""Claude Code, headless."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.orchestrator.agents.agent import Launch, OutputReader
from shiftboss.orchestrator.agents.claude_output import ClaudeOutput
from shiftboss.orchestrator.agents.starting import (
    HOOK_SECONDS,
    SERVER_NAME,
    TOKEN_VARIABLE,
    hook_command,
    launch,
    mcp_url,
    missing,
    write_settings,
)
from shiftboss.orchestrator.seat import Seat
from shiftboss.protocol.plan import PlanAgent

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

    def launch(self, seat: Seat, settings: PlanAgent, prompt: str, model: str | None) -> Launch:
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


def _servers(seat: Seat) -> dict[str, Any]:
    server: dict[str, Any] = {"type": "http", "url": mcp_url(seat)}
    if seat.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
    return {"mcpServers": {SERVER_NAME: server}}


def _settings(seat: Seat) -> dict[str, Any]:
    return {
        "disableAllHooks": False,
        "permissions": {"allow": list(_ALLOWED)},
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": [_hook("pre-tool-use", seat)]}],
            "Stop": [{"hooks": [_hook("stop", seat)]}],
        },
    }


def _hook(kind: str, seat: Seat) -> dict[str, Any]:
    return {"type": "command", "command": hook_command(kind, seat), "timeout": HOOK_SECONDS}


AGENT: Final = Claude()
