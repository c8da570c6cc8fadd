"""shiftboss mcp: offers the tools of a running server on standard input and output."""

from __future__ import annotations

from shiftboss.cli.common.discovery import find_address
from shiftboss.cli.common.options import CaFile, ServerUrl, TokenFile


def mcp(
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,  # noqa: ARG001 - exported already
) -> None:
    """Serve MCP on standard input and output.

    For agents that start their tools themselves.
    """
    from shiftboss.cli.commands.server.mcp_stdio import serve
    from shiftboss.client.servers import Servers

    serve(Servers.at(find_address(server), token_file=token_file))
