"""shiftboss mcp: offers the tools of a running server on standard input and output."""

from __future__ import annotations

from shiftboss.cli.common.discovery import find_address
from shiftboss.cli.common.options import CaFile, ServerUrl, TokenFile
from shiftboss.cli.common.tokens import read_token


def mcp(
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,  # noqa: ARG001 - exported already
) -> None:
    """Serve MCP on standard input and output.

    For agents that start their tools themselves.
    """
    token = read_token(token_file)
    from shiftboss.cli.commands.server.mcp_stdio import serve

    serve(find_address(server), token)
