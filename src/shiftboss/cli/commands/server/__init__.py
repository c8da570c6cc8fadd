"""Commands that run something: server, verifier, MCP on stdio, hooks, doctor."""
