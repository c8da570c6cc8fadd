"""Notifications: which events lead to one, what it says, when it is sent, and how it is signed."""
