"""Claude Code."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shiftboss.agents.agent import Agent, ResumeCommand, StopHook, ToolHook
from shiftboss.defaults import TOKEN_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from shiftboss.agents.launch import AgentWorkspace, Launch
    from shiftboss.agents.output_events import OutputReader
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.protocol.plan import PlanAgent
    from shiftboss.rules.documents.file_edits import FileEdit


class Claude(Agent):
    kind = "claude"
    program = "claude"
    provider = "anthropic"
    install_command = "npm install --global @anthropic-ai/claude-code"
    hooks = MappingProxyType({"pre-tool-use": ToolHook(), "stop": StopHook()})
    traces = (".claude", ".mcp.json", "CLAUDE.md")
    why_no_resume = ""
    reads_token_file = True

    def launch(
        self, workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        from shiftboss.agents.claude.launch import launch_claude

        return launch_claude(workspace, settings, prompt, model)

    def reader(self, settings: PlanAgent) -> OutputReader:
        from shiftboss.agents.claude.output import ClaudeOutput

        return ClaudeOutput(settings)

    def session_of(self, line: str) -> str | None:
        from shiftboss.agents.output_lines import parse_object, text

        event = parse_object(line)
        if event is None or event.get("type") != "system":
            return None
        return text(event.get("session_id")) or None

    def resume(self, settings: PlanAgent, session: str, scratch: Path) -> ResumeCommand:  # noqa: ARG002
        """Claude Code keeps the sessions of a folder with the settings of the user."""
        return ResumeCommand([*(settings.command or [self.program]), "--resume", session])

    def setup_files(
        self,
        names: Collection[str],  # noqa: ARG002
        server: RepositoryServer | None = None,
    ) -> list[FileEdit]:
        from shiftboss.agents.repository_settings import (
            LOCAL_SERVER,
            mcp_server,
            stop_hook,
            tool_hook,
        )
        from shiftboss.rules.documents.file_edits import JsonFile

        server = server or LOCAL_SERVER
        settings = {"type": "http", "url": server.mcp_url, **_token(server)}
        hooks = [tool_hook("PreToolUse", "pre-tool-use", "*"), stop_hook("Stop", "stop")]
        return [
            JsonFile(".mcp.json", [mcp_server("mcpServers", settings, server)]),
            JsonFile(".claude/settings.json", hooks),
        ]


def _token(server: RepositoryServer) -> dict[str, Any]:
    """A file is read by a command of the shell, whenever Claude Code connects. The variable comes
    first, as everywhere. Claude Code refuses settings with a variable that is not set and has no
    default."""
    if server.token_file is None:
        return server.headers(f"${{{TOKEN_VARIABLE}:-}}")
    token = f"${{{TOKEN_VARIABLE}:-$(head -n 1 {server.token_file})}}"
    return {"headersHelper": f"""printf '{{"Authorization": "Bearer %s"}}' "{token}\""""}


AGENT: Final = Claude()
