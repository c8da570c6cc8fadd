"""opencode, headless."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from shiftboss.hooks.command import opencode_plugin
from shiftboss.orchestrator.agents.agent import Launch, OutputReader
from shiftboss.orchestrator.agents.opencode_output import OpencodeOutput
from shiftboss.orchestrator.agents.starting import (
    SERVER_NAME,
    TOKEN_VARIABLE,
    TOOL_SECONDS,
    launch,
    mcp_url,
    missing,
    users_environment,
    write_private,
)
from shiftboss.orchestrator.seat import Seat
from shiftboss.protocol.plan import PlanAgent

_RETRIES: Final = Path(__file__).with_name("opencode_retries.js")
_USER_SETTINGS: Final = ("config.json", "opencode.json", "opencode.jsonc")


class Opencode:
    """Our settings are the last that it reads; the user's stay, for providers are set up in them,
    with the MCP servers turned off. Its database is a file of the attempt: sessions of workers are
    not among the user's, and workers do not wait for each other. The login is elsewhere.

    It cannot be kept from stopping: its plugins are told of the end, but not asked."""

    kind = "opencode"
    speaks = True

    def launch(self, seat: Seat, settings: PlanAgent, prompt: str, model: str | None) -> Launch:
        folder = seat.scratch / "opencode"
        plugins = [
            write_private(folder / "hook.js", opencode_plugin(seat.contract_file)),
            write_private(folder / "retries.js", _RETRIES.read_text(encoding="utf-8")),
        ]
        environment = users_environment(seat, settings)
        chosen = model or settings.model
        arguments = [
            *("run", "--format", "json", "--auto", "--dir", str(seat.tree)),
            *(["--model", chosen] if chosen else []),
        ]
        variables = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(_settings(seat, environment, plugins)),
            "OPENCODE_DB": str(folder / "sessions.db"),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        }
        return launch(seat, settings, "opencode", arguments, prompt, variables)

    def reader(self, settings: PlanAgent) -> OutputReader:
        return OpencodeOutput(settings)

    def found(self, settings: PlanAgent) -> str | None:
        return missing(settings, "opencode", "opencode-ai")


def _settings(seat: Seat, environment: Mapping[str, str], plugins: list[Path]) -> dict[str, Any]:
    server: dict[str, Any] = {"type": "remote", "url": mcp_url(seat), "enabled": True}
    server |= {"oauth": False, "timeout": TOOL_SECONDS * 1000}
    if seat.server_token is not None:
        server["headers"] = {"Authorization": f"Bearer {{env:{TOKEN_VARIABLE}}}"}
    foreign = {name: {"enabled": False} for name in _foreign_servers(environment)}
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,  # git has the history of the tree
        "mcp": {**foreign, SERVER_NAME: server},
        "permission": {"*": "allow"},
        "plugin": [path.as_uri() for path in plugins],
    }


def _foreign_servers(environment: Mapping[str, str]) -> Iterator[str]:
    """The names of the MCP servers in the user's settings, which are none of our business."""
    home = Path(environment.get("HOME", "~")).expanduser()
    folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    for name in _USER_SETTINGS:
        try:
            text = (folder / name).read_text(encoding="utf-8")
            members = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        except (OSError, ValueError, RecursionError):
            continue  # not there, or with commas and comments that we do not read
        servers = members.get("mcp") if isinstance(members, dict) else None
        yield from servers if isinstance(servers, dict) else ()


AGENT: Final = Opencode()
