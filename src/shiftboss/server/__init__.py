"""How the coordinator is reached: HTTP, MCP and event streams."""
