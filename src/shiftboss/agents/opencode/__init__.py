"""opencode."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from shiftboss.agents.agent import Agent, ResumeCommand, ToolHook

if TYPE_CHECKING:
    from pathlib import Path

    from shiftboss.agents.launch import AgentWorkspace, Launch
    from shiftboss.agents.output_events import OutputReader
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.protocol.plan import PlanAgent
    from shiftboss.rules.documents.file_edits import FileEdit


class OpencodeToolHook(ToolHook):
    """Run by our plugin, which throws what it prints as an error."""

    tool_key = "tool"
    input_key = "args"


class Opencode(Agent):
    """opencode cannot be kept from ending: plugins are told when a session ends, but not asked."""

    kind = "opencode"
    program = "opencode"
    install_command = "npm install --global opencode-ai"
    hooks = MappingProxyType({"opencode-before-tool": OpencodeToolHook()})
    traces = ("opencode.json", "opencode.jsonc", ".opencode")
    why_no_resume = ""

    def launch(
        self, workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        from shiftboss.agents.opencode.launch import launch_opencode

        return launch_opencode(workspace, settings, prompt, model)

    def reader(self, settings: PlanAgent) -> OutputReader:
        from shiftboss.agents.opencode.output import OpencodeOutput

        return OpencodeOutput(settings)

    def session_of(self, line: str) -> str | None:
        from shiftboss.agents.output_lines import member, parse_object, text

        return text(member(parse_object(line), "sessionID")) or None

    def resume(self, settings: PlanAgent, session: str, scratch: Path) -> ResumeCommand:
        from shiftboss.agents.opencode.launch import sessions_file

        argv = [*(settings.command or [self.program]), "--session", session]
        return ResumeCommand(argv, {"OPENCODE_DB": str(sessions_file(scratch))})

    def setup_files(
        self, names: Collection[str], server: RepositoryServer | None = None
    ) -> list[FileEdit]:
        from pathlib import Path

        from shiftboss.agents.launch import TOOL_SECONDS
        from shiftboss.agents.repository_settings import LOCAL_SERVER, mcp_server
        from shiftboss.defaults import TOKEN_VARIABLE
        from shiftboss.rules.documents.file_edits import FormerFile, JsonFile, WholeFile
        from shiftboss.rules.documents.text_blocks import sealed

        has_jsonc = "opencode.jsonc" in names and "opencode.json" not in names
        server = server or LOCAL_SERVER
        settings = {
            "type": "remote",
            "url": server.mcp_url,
            "oauth": False,
            "timeout": TOOL_SECONDS * 1000,
            # It could name a file, but does not even start for a colleague without that file.
            **server.headers(f"{{env:{TOKEN_VARIABLE}}}"),
        }
        plugin = Path(__file__).with_name("repository_plugin.js").read_text(encoding="utf-8")
        return [
            JsonFile(
                "opencode.jsonc" if has_jsonc else "opencode.json",
                [mcp_server("mcp", settings, server)],
            ),
            # Every 1.x loads plugins from this folder. The one that is documented since 1.1, with
            # an s, keeps a 1.0 from starting.
            WholeFile(".opencode/plugin/shiftboss.js", sealed(plugin, "//"), "//"),
            FormerFile(".opencode/plugins/shiftboss.js", "//"),
        ]


AGENT: Final = Opencode()
