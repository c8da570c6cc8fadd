"""The guardian: a process that supervises one agent, and the orchestrator's connection to it."""
