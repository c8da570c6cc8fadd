"""Codex."""

from __future__ import annotations

import json
from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shiftboss.agents.agent import Agent, StopHook, ToolHook

if TYPE_CHECKING:
    from shiftboss.agents.launch import AgentWorkspace, Launch
    from shiftboss.agents.output_events import OutputReader
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.protocol.plan import PlanAgent
    from shiftboss.rules.documents.file_edits import FileEdit


class Codex(Agent):
    kind = "codex"
    program = "codex"
    provider = "openai"
    install_command = "npm install --global @openai/codex"
    hooks = MappingProxyType({"codex-pre-tool-use": ToolHook(), "codex-stop": StopHook()})
    traces = (".codex",)
    # Its sessions would be listed among those of the user.
    why_no_resume = "Codex runs with --ephemeral and keeps no session"

    def launch(
        self, workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        from shiftboss.agents.codex.launch import launch_codex

        return launch_codex(workspace, settings, prompt, model)

    def reader(self, settings: PlanAgent) -> OutputReader:
        from shiftboss.agents.codex.output import CodexOutput

        return CodexOutput(settings)

    def setup_files(
        self,
        names: Collection[str],  # noqa: ARG002
        server: RepositoryServer | None = None,
    ) -> list[FileEdit]:
        from shiftboss.agents.launch import SERVER_NAME, TOOL_SECONDS
        from shiftboss.agents.repository_settings import LOCAL_SERVER, stop_hook, tool_hook
        from shiftboss.defaults import TOKEN_VARIABLE
        from shiftboss.rules.documents.file_edits import JsonFile, TomlFile

        server = server or LOCAL_SERVER
        table = [
            f"[mcp_servers.{SERVER_NAME}]",
            f"url = {json.dumps(server.mcp_url)}",
            *([f'bearer_token_env_var = "{TOKEN_VARIABLE}"'] if server.needs_token else []),
            f"tool_timeout_sec = {TOOL_SECONDS}",
        ]

        def is_kept(found: Any) -> bool:
            """Of a server that was chosen before."""
            return not server.is_chosen and found.get("url") != server.mcp_url

        hooks = [
            tool_hook("PreToolUse", "codex-pre-tool-use", ".*"),
            stop_hook("Stop", "codex-stop"),
        ]
        return [
            TomlFile(".codex/config.toml", ("mcp_servers", SERVER_NAME), table, is_kept),
            JsonFile(".codex/hooks.json", hooks),
        ]


AGENT: Final = Codex()
