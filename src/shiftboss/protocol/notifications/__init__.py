"""Notifications: the settings of the operator's file, and what commands ask about them."""
