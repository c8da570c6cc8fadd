"""shiftboss mcp: the tools of a running server, on standard input and output."""

from __future__ import annotations

from shiftboss.cli.common.options import DEFAULT_SERVER, Server, TokenFile
from shiftboss.cli.common.tokens import read_token


def mcp(server: Server = DEFAULT_SERVER, token_file: TokenFile = None) -> None:
    """Speak MCP on standard input and output, for agents that start their tools themselves."""
    token = read_token(token_file)
    # Only this command pays for the SDK's imports.
    from shiftboss.cli.commands.server.mcp_stdio import serve

    serve(server, token)
