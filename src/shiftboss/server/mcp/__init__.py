"""The bus over MCP: one table of tools, a bare handler for plain calls, the SDK for the rest."""
