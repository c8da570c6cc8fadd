"""The settings of each agent, in the folder of a repository."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from shiftboss.init.file_edits import (
    HOOK_PROGRAM,
    FileEdit,
    Hook,
    JsonFile,
    Member,
    TomlFile,
    WholeFile,
)
from shiftboss.init.text_blocks import sealed

SERVER_NAME: Final = "shiftboss"
SERVER: Final = "http://127.0.0.1:7432"
_URL: Final = f"{SERVER}/mcp"
# Longer than the server lets a call wait.
_TOOL_SECONDS: Final = 120
_HOOK_SECONDS: Final = 30
_PLUGIN: Final = """\
// Asks the hook of Shiftboss before every tool. Who works without a contract is not held to one.
import { spawnSync } from "node:child_process"

export const Shiftboss = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const asked = JSON.stringify({ tool: input.tool, args: output.args ?? {}, cwd: directory })
    const hook = spawnSync("shiftboss", ["hook", "opencode-before-tool"], {
      input: asked,
      cwd: directory,
      encoding: "utf8",
      timeout: 10000,
      maxBuffer: 1 << 20,
    })
    // Not installed here. A run of Shiftboss brings hooks of its own.
    if (hook.error?.code === "ENOENT") return
    if (hook.error || hook.status !== 0) {
      const said = (hook.stderr || "").trim()
      throw new Error(said || `Shiftboss refused this: its hook did not run: ${hook.error}`)
    }
  },
})
"""


class AgentSettings(NamedTuple):
    """`traces` are names by which a folder shows that somebody uses the agent there. `wishes` are
    made for the names that the folder has."""

    name: str
    traces: tuple[str, ...]
    wishes: Callable[[Collection[str]], list[FileEdit]]


def _claude(_names: Collection[str]) -> list[FileEdit]:
    hooks = _hooks("PreToolUse", "*", "pre-tool-use", "Stop", "stop", _HOOK_SECONDS)
    return [
        JsonFile(".mcp.json", [_server("mcpServers", {"type": "http", "url": _URL})]),
        JsonFile(".claude/settings.json", hooks),
    ]


def _codex(_names: Collection[str]) -> list[FileEdit]:
    table = [
        f"[mcp_servers.{SERVER_NAME}]",
        f'url = "{_URL}"',
        f"tool_timeout_sec = {_TOOL_SECONDS}",
    ]
    hooks = _hooks("PreToolUse", ".*", "codex-pre-tool-use", "Stop", "codex-stop", _HOOK_SECONDS)
    return [
        TomlFile(".codex/config.toml", ("mcp_servers", SERVER_NAME), table),
        JsonFile(".codex/hooks.json", hooks),
    ]


def _opencode(names: Collection[str]) -> list[FileEdit]:
    has_other = "opencode.jsonc" in names and "opencode.json" not in names
    server = {"type": "remote", "url": _URL, "oauth": False, "timeout": _TOOL_SECONDS * 1000}
    return [
        JsonFile("opencode.jsonc" if has_other else "opencode.json", [_server("mcp", server)]),
        WholeFile(".opencode/plugins/shiftboss.js", sealed(_PLUGIN, "//"), "//"),
    ]


def _gemini(_names: Collection[str]) -> list[FileEdit]:
    # In a run the settings of the tree come before the run's own: the address has to be its.
    url = f"${{SHIFTBOSS_URL:-{SERVER}}}/mcp"
    server = _server("mcpServers", {"httpUrl": url, "timeout": _TOOL_SECONDS * 1000})
    before, after = "gemini-before-tool", "gemini-after-agent"
    hooks = _hooks("BeforeTool", ".*", before, "AfterAgent", after, _HOOK_SECONDS * 1000)
    return [JsonFile(".gemini/settings.json", [server, *hooks])]


def _server(table: str, value: dict[str, Any]) -> Member:
    return Member((table, SERVER_NAME), value)


def _hooks(
    before: str, matcher: str, before_kind: str, end: str, end_kind: str, timeout: int
) -> list[Member | Hook]:
    """One asked before every tool, and one at the end."""

    def command(kind: str) -> list[dict[str, Any]]:
        return [{"type": "command", "command": f"{HOOK_PROGRAM}{kind}", "timeout": timeout}]

    return [
        Hook(("hooks", before), {"matcher": matcher, "hooks": command(before_kind)}),
        Hook(("hooks", end), {"hooks": command(end_kind)}),
    ]


AGENTS: Final = {
    agent.name: agent
    for agent in (
        AgentSettings("claude", (".claude", ".mcp.json", "CLAUDE.md"), _claude),
        AgentSettings("codex", (".codex",), _codex),
        AgentSettings("opencode", ("opencode.json", "opencode.jsonc", ".opencode"), _opencode),
        AgentSettings("gemini", (".gemini", "GEMINI.md"), _gemini),
    )
}
DEFAULT_AGENT: Final = "claude"
