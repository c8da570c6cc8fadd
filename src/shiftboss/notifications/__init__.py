"""Channels of notifications: desktop, command, webhook. The settings are a file of the operator."""
