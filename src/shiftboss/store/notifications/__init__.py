"""Notifications in the store: the outbox, the notifications, their deliveries."""
