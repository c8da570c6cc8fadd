"""The operator's page: its files, logging in, and the feed of changes."""
