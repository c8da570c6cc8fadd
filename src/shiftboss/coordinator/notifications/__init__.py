"""Notifications: from the outbox to a message for every channel, and what the operator asks."""
