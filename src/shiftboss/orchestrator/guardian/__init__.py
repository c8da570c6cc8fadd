"""The guardian process that watches over one agent, and the orchestrator's side of it."""
