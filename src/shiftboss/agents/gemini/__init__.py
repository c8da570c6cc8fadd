"""Gemini CLI."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from shiftboss.agents.agent import Agent, HookAnswer, StopHook, ToolHook

if TYPE_CHECKING:
    from shiftboss.agents.launch import AgentWorkspace, Launch
    from shiftboss.agents.output_events import OutputReader
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.protocol.plan import PlanAgent
    from shiftboss.rules.documents.file_edits import FileEdit


class GeminiToolHook(ToolHook):
    def allow(self) -> HookAnswer:
        return HookAnswer(stdout="{}")


class GeminiStopHook(StopHook):
    decision = "deny"


class Gemini(Agent):
    kind = "gemini"
    program = "gemini"
    provider = "gcp.gemini"
    install_command = "npm install --global @google/gemini-cli"
    hooks = MappingProxyType(
        {"gemini-before-tool": GeminiToolHook(), "gemini-after-agent": GeminiStopHook()}
    )
    traces = (".gemini", "GEMINI.md")
    why_no_resume = "Gemini CLI has a home of its own for each attempt, with our settings in it"

    def launch(
        self, workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        from shiftboss.agents.gemini.launch import launch_gemini

        return launch_gemini(workspace, settings, prompt, model)

    def reader(self, settings: PlanAgent) -> OutputReader:
        from shiftboss.agents.gemini.output import GeminiOutput

        return GeminiOutput(settings)

    def setup_files(
        self,
        names: Collection[str],  # noqa: ARG002
        server: RepositoryServer | None = None,
    ) -> list[FileEdit]:
        from shiftboss.agents.launch import TOOL_SECONDS
        from shiftboss.agents.repository_settings import (
            LOCAL_SERVER,
            REPOSITORY_HOOK_SECONDS,
            mcp_server,
            stop_hook,
            tool_hook,
        )
        from shiftboss.defaults import MCP_URL_VARIABLE, TOKEN_VARIABLE
        from shiftboss.rules.documents.file_edits import HookEntry, JsonFile, Member

        # In a run these settings take precedence over those of the run, so that the address has to
        # come from a variable of the run. Times are in milliseconds.
        server = server or LOCAL_SERVER
        settings = {
            "httpUrl": f"${{{MCP_URL_VARIABLE}:-{server.mcp_url}}}",
            "timeout": TOOL_SECONDS * 1000,
            **server.headers(f"${{{TOKEN_VARIABLE}}}"),
        }
        parts: list[Member | HookEntry] = [
            mcp_server("mcpServers", settings, server, url="httpUrl"),
            tool_hook("BeforeTool", "gemini-before-tool", ".*", REPOSITORY_HOOK_SECONDS * 1000),
            stop_hook("AfterAgent", "gemini-after-agent", REPOSITORY_HOOK_SECONDS * 1000),
        ]
        return [JsonFile(".gemini/settings.json", parts)]


AGENT: Final = Gemini()
