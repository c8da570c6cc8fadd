"""The commands, grouped by chapter."""
