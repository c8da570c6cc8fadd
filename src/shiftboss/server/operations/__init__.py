"""The operations of the API, one table per chapter, shared by HTTP and MCP."""
