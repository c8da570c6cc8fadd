"""Checks of a server: every endpoint, tool and message of the documents."""
