"""Runs the commands of a contract: no shell, limits, and no process left behind."""
