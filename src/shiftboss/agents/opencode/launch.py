"""Starting opencode, headless."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from shiftboss.agents.launch import (
    SERVER_NAME,
    TOOL_SECONDS,
    AgentWorkspace,
    Launch,
    launch,
    mcp_url,
    user_environment,
)
from shiftboss.defaults import TOKEN_VARIABLE
from shiftboss.protocol.plan import PlanAgent
from shiftboss.system.private_files import write_private

_FOLDER: Final = Path(__file__).parent
_USER_SETTINGS: Final = ("config.json", "opencode.json", "opencode.jsonc")


def launch_opencode(
    workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
) -> Launch:
    """Our settings are the last that opencode reads. Those of the user stay in force, because
    providers are set up in them, but their MCP servers are turned off. The database is a file of
    the attempt: sessions of workers do not show up among the user's, and workers do not wait for
    each other's locks. The login is kept elsewhere."""
    folder = workspace.scratch / "opencode"
    retries = (_FOLDER / "retries_plugin.js").read_text(encoding="utf-8")
    plugins = [
        write_private(folder / "hook.js", hook_plugin(workspace.hook_argv("opencode-before-tool"))),
        write_private(folder / "retries.js", retries),
    ]
    environment = user_environment(workspace, settings)
    chosen_model = model or settings.model
    arguments = [
        *("run", "--format", "json", "--auto", "--dir", str(workspace.tree)),
        *(["--model", chosen_model] if chosen_model else []),
    ]
    variables = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(_settings(workspace, environment, plugins)),
        "OPENCODE_DB": str(sessions_file(workspace.scratch)),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    }
    return launch(workspace, settings, "opencode", arguments, prompt, variables)


def sessions_file(scratch: Path) -> Path:
    return scratch / "opencode" / "sessions.db"


def hook_plugin(hook_argv: Sequence[str]) -> str:
    """The plugin that runs our hook before every tool."""
    plugin = (_FOLDER / "hook_plugin.js").read_text(encoding="utf-8")
    return plugin.replace('"@HOOK_ARGV@"', json.dumps(list(hook_argv)))


def _settings(
    workspace: AgentWorkspace, environment: Mapping[str, str], plugins: list[Path]
) -> dict[str, Any]:
    server: dict[str, Any] = {"type": "remote", "url": mcp_url(workspace), "enabled": True}
    server |= {"oauth": False, "timeout": TOOL_SECONDS * 1000}
    if workspace.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer {{env:{TOKEN_VARIABLE}}}"}
    disabled = {name: {"enabled": False} for name in _user_servers(environment)}
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,  # git has the history of the work tree
        "mcp": {**disabled, SERVER_NAME: server},
        "permission": {"*": "allow"},
        "plugin": [path.as_uri() for path in plugins],
    }


def _user_servers(environment: Mapping[str, str]) -> Iterator[str]:
    """The names of the MCP servers in the user's settings. A worker must not use them."""
    home = Path(environment.get("HOME", "~")).expanduser()
    folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    for name in _USER_SETTINGS:
        try:
            text = (folder / name).read_text(encoding="utf-8")
            members = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        except (OSError, ValueError, RecursionError):
            continue  # missing, or with comments and trailing commas that this does not understand
        servers = members.get("mcp") if isinstance(members, dict) else None
        yield from servers if isinstance(servers, dict) else ()
