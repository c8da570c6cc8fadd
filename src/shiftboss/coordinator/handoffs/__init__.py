"""Handoffs: spawning a task with its contract, ownership, scope requests, strategy records."""
