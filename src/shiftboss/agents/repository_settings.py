"""Shared parts of the settings that `shiftboss init` writes into a repository."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shiftboss.agents.launch import SERVER_NAME, hook_settings
from shiftboss.defaults import ADDRESS, TOKEN_VARIABLE
from shiftboss.rules.documents.file_edits import HookEntry, Member, hook_command

REPOSITORY_HOOK_SECONDS: Final = 30
# In the settings of all agents, by which they know our server and its token.
_TOKEN_MEMBERS: Final = ("headers", "headersHelper")


class RepositoryServer(NamedTuple):
    """The server that the agents of a repository use. Settings are committed, so that they contain
    no token: it comes from a variable, or from `token_file` where the agent can read one. That is
    a word of shell. `is_chosen`: the user has named the server, now."""

    address: str = ADDRESS
    needs_token: bool = False
    token_file: str | None = None
    is_chosen: bool = False

    @property
    def mcp_url(self) -> str:
        return f"{self.address}/mcp"

    def headers(self, variable: str) -> dict[str, Any]:
        """`variable` is how the settings of the agent refer to SHIFTBOSS_TOKEN."""
        if not self.needs_token:
            return {}
        return {"headers": {"Authorization": f"Bearer {variable}"}}


LOCAL_SERVER: Final = RepositoryServer()


def mcp_server(
    table: str, settings: dict[str, Any], server: RepositoryServer, url: str = "url"
) -> Member:
    """Our MCP server, in the table of MCP servers of this name. `url` is the member with its
    address."""
    known = _without_place(settings, url)

    def is_alike(value: Any) -> bool:
        return isinstance(value, Mapping) and _without_place(value, url) == known

    def is_ours(value: Any) -> bool:
        """One that init wrote for another server; without a token it could be the user's own."""
        return is_alike(value) and TOKEN_VARIABLE in json.dumps(
            [value.get(name) for name in _TOKEN_MEMBERS]
        )

    replaced = is_alike if server.is_chosen else None
    return Member((table, SERVER_NAME), settings, is_ours, replaced)


def _without_place(settings: Mapping[str, Any], url: str) -> dict[str, Any]:
    return {name: settings[name] for name in settings if name not in (url, *_TOKEN_MEMBERS)}


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
